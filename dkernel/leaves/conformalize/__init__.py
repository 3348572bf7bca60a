"""Conformity scores of a model by rows that its fit has not seen, and in each of their groups."""
