"""The normal equations of ridge regression, a solver that no default takes."""
