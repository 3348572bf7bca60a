"""Statistics over pieces of the rows, and how Dask carries them."""
