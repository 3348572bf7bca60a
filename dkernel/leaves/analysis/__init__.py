"""Kernels looked at: the matrix of all rows, its leading eigenvectors, and whether it is positive semi-definite."""
