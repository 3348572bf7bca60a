"""Spectral laws of shift-invariant kernels."""
