"""Search over candidates on the full data."""
