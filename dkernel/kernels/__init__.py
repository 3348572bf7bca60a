"""Kernels as values: k(X, Z), their algebra, text form, landmark columns and spectra.

It imports numpy, scipy and `numerics` only. A new kernel is a class in a file that `parse.py` lists, named in that
file's `__all__`, and a line in the tests' catalogue.
"""

from dkernel.kernels.additive import AdditiveChi2
from dkernel.kernels.algebra import Product, Scaled, Sum
from dkernel.kernels.base import Kernel
from dkernel.kernels.dot import ArcCosine, Linear, Polynomial
from dkernel.kernels.functions import FeatureMapKernel, FunctionKernel
from dkernel.kernels.landmark_columns.base import COLUMN_BLOCK, LandmarkColumns
from dkernel.kernels.parameters import GAMMA_WORDS
from dkernel.kernels.parse import kernel_names, parse
from dkernel.kernels.radial import Cauchy, Exponential, Matern, ProductCauchy, RationalQuadratic
from dkernel.kernels.registry import register
from dkernel.kernels.spectra.laws import SAMPLINGS
from dkernel.kernels.stationary import Gaussian, Laplacian
from dkernel.kernels.transforms import Exp, Geometric, Normalized, PowerSeries, Selection, Weighted

__all__ = [
    "COLUMN_BLOCK",
    "GAMMA_WORDS",
    "SAMPLINGS",
    "AdditiveChi2",
    "ArcCosine",
    "Cauchy",
    "Exp",
    "Exponential",
    "FeatureMapKernel",
    "FunctionKernel",
    "Gaussian",
    "Geometric",
    "Kernel",
    "LandmarkColumns",
    "Laplacian",
    "Linear",
    "Matern",
    "Normalized",
    "Polynomial",
    "PowerSeries",
    "Product",
    "ProductCauchy",
    "RationalQuadratic",
    "Scaled",
    "Selection",
    "Sum",
    "Weighted",
    "kernel_names",
    "parse",
    "register",
]
