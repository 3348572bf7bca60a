"""The scikit-learn faces: thin classes that build the recipe and the source of the command and hand them to `run`."""

from dkernel.estimators.binning import BinningFeatures
from dkernel.estimators.cca import KernelCCA
from dkernel.estimators.classifier import KernelClassifier
from dkernel.estimators.embedded import KernelKMeans, KernelPCA
from dkernel.estimators.oneclass import OneClassSVM
from dkernel.estimators.perceptron import KernelPerceptron
from dkernel.estimators.regressor import KernelRegressor
from dkernel.estimators.sketches import KernelFeatures, MaclaurinFeatures, TensorSketchFeatures
from dkernel.estimators.spectral import SpectralClustering
from dkernel.estimators.transformers import FourierFeatures, NystromFeatures
from dkernel.estimators.tuner import Tuner

__all__ = [
    "BinningFeatures",
    "FourierFeatures",
    "KernelCCA",
    "KernelClassifier",
    "KernelFeatures",
    "KernelKMeans",
    "KernelPCA",
    "KernelPerceptron",
    "KernelRegressor",
    "MaclaurinFeatures",
    "NystromFeatures",
    "OneClassSVM",
    "SpectralClustering",
    "TensorSketchFeatures",
    "Tuner",
]
