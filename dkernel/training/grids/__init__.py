"""The grids of a fit: its inputs, its trial on a sample, the fit to a residual and the update."""
