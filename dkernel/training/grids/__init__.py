"""The grids of a fit: their inputs, their trial on a sample, the fit to a residual and the update."""
