"""Scores, evaluation, explanations and reports of a model."""
