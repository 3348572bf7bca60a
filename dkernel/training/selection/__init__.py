"""Choice of kernel, bandwidth, scale, metric and landmarks."""
