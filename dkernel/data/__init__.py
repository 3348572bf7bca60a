"""Files, arrays and frames to blocks and back, and the encoding of their columns."""
