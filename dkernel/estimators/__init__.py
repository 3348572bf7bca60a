"""Estimators with scikit-learn's interface, which make the recipe and the source of a fit."""

from dkernel.estimators.classifier import KernelClassifier
from dkernel.estimators.regressor import KernelRegressor

__all__ = ["KernelClassifier", "KernelRegressor"]
