"""Losses, their calibration, and the metrics of scores."""
