"""Solvers run over streamed data."""
