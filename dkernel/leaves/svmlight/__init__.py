"""Sparse rows in text: svmlight and libsvm."""
