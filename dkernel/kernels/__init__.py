"""Kernels: immutable values with k(X, Z), an algebra, a text form, landmark columns and spectral laws.

Imports numpy, scipy and floor 0 only. A new kernel is a class in a file that `parse.py` lists, named in that file's
`__all__`, and a line in the tests' catalogue.
"""

from dkernel.kernels.algebra import Product, Scaled, Sum
from dkernel.kernels.base import Kernel
from dkernel.kernels.columns import COLUMN_BLOCK, Columns
from dkernel.kernels.dot import Linear, Polynomial
from dkernel.kernels.parameters import GAMMA_WORDS
from dkernel.kernels.parse import kernel_names, parse
from dkernel.kernels.radial import Cauchy, Exponential, Matern, ProductCauchy, RationalQuadratic
from dkernel.kernels.spectral import SAMPLINGS
from dkernel.kernels.stationary import Gaussian, Laplacian

__all__ = [
    "COLUMN_BLOCK",
    "GAMMA_WORDS",
    "SAMPLINGS",
    "Cauchy",
    "Columns",
    "Exponential",
    "Gaussian",
    "Kernel",
    "Laplacian",
    "Linear",
    "Matern",
    "Polynomial",
    "Product",
    "ProductCauchy",
    "RationalQuadratic",
    "Scaled",
    "Sum",
    "kernel_names",
    "parse",
]
