"""Random feature maps, which need a seed and no data."""
