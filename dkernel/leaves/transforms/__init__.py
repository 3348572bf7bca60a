"""Transformers: feature maps, decompositions and clusterings."""
