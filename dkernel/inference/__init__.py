"""Scores, evaluation and summaries of a model, and drift."""
