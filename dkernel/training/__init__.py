"""One fit, from a source to a model."""
