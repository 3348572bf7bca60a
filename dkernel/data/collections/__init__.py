"""Collections in memory and in Dask as sources."""
