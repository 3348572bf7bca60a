"""Arrays in files: NPY, NPZ, Zarr and HDF5."""
