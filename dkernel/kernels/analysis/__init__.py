"""Gradients of kernel expansions, and the test for positive semidefiniteness."""
