"""Export of a model as a scikit-learn Pipeline or an ONNX graph, which need neither dkernel nor Dask.

scikit-learn and onnx are imported where they are asked for: a model leaves one way, and need not have both.
"""
