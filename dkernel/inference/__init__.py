"""Scores, evaluation and other uses of a model or a kernel on many rows."""
