"""Estimators with scikit-learn's interface, which make the recipe and the source of a fit."""

from dkernel.estimators.classifier import KernelClassifier
from dkernel.estimators.one_class import OneClassSVM
from dkernel.estimators.perceptron import KernelPerceptron
from dkernel.estimators.regressor import KernelRegressor
from dkernel.estimators.transforms.binning import BinningFeatures
from dkernel.estimators.transforms.cca import KernelCCA
from dkernel.estimators.transforms.clustering import KernelKMeans
from dkernel.estimators.transforms.decomposition import KernelPCA
from dkernel.estimators.transforms.kernel_features import KernelFeatures
from dkernel.estimators.transforms.kernel_maps import FourierFeatures, NystromFeatures
from dkernel.estimators.transforms.spectral_clustering import SpectralClustering
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
    "NystromFeatures",
    "OneClassSVM",
    "SpectralClustering",
    "Tuner",
]
