"""Random maps that few kernels need: additive chi², products of signs, rectified sums and count sketches."""
