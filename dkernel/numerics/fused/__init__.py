"""Compiled walks over rows in which components never leave registers and the first caches."""
