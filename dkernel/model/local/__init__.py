"""Local machines of a fit: they learn from rows that lie near each other, and are functions of blocks."""
