"""Leaving: a model as what others can run, a scikit-learn Pipeline or an ONNX graph, without dkernel or Dask.

scikit-learn and onnx are imported where they are asked for: a model leaves one way, and need not have both.
"""
