"""Kernels whose rows are strings or sets."""
