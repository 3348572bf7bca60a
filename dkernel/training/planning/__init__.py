"""The plan of a fit: the sum of the memory and work that its stages state."""
