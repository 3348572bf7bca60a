"""Export of a model as an ONNX graph, which needs neither dkernel nor Dask."""
