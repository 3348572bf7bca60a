"""The optimisation problem of a fit, and everything that solves it."""
