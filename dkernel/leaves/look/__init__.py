"""A look at data before a fit."""
