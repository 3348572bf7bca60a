"""The plan of a fit: memory and work, the sum of what its stages state."""
