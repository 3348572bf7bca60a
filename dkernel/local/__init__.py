"""Local stages of a fit: what is learned from rows that lie near each other, as functions of blocks."""
