"""Shapley values: what each column adds to a prediction."""
