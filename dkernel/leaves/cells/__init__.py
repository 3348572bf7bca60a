"""The cells of a fit: their trial on a sample, the fits to a residual and the update."""
