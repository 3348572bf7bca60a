"""Kernel values at fixed landmarks, one cache tile at a time."""
