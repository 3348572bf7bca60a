"""The local stages of a fit: grids or cells learn the residual of the global stage."""
