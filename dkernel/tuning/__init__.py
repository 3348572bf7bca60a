"""Search over candidates in the stream."""
