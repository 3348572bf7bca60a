"""Execution of calls on a Dask cluster, on threads, or in a loop."""
