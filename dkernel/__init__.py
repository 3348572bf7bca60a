"""dkernel: kernel machines for data larger than memory, on Dask.

Every public name is here, and imported when it is first used: `import dkernel` alone costs next to nothing. `dir` has
the names that most people use, and `dkernel.__all__` all of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dkernel import errors
from dkernel.leaf_table import LEAF_OF_NAME, load_leaf

if TYPE_CHECKING:
    from dkernel.data.opening import open_source
    from dkernel.estimators import KernelClassifier, KernelRegressor
    from dkernel.estimators.loading import load
    from dkernel.estimators.scoring import score
    from dkernel.kernels import (
        AdditiveChi2,
        ArcCosine,
        Cauchy,
        Exp,
        Exponential,
        FeatureMapKernel,
        FunctionKernel,
        Gaussian,
        Geometric,
        Laplacian,
        Linear,
        Matern,
        Normalized,
        Polynomial,
        PowerSeries,
        ProductCauchy,
        RationalQuadratic,
        Weighted,
    )
    from dkernel.kernels.parse import parse
    from dkernel.kernels.registry import register
    from dkernel.leaves.analysis.gram_matrix import gram
    from dkernel.leaves.analysis.nystrom_operator import nystrom_operator
    from dkernel.leaves.analysis.psd_check import is_psd
    from dkernel.leaves.cells.parameters import Cells
    from dkernel.leaves.explanation.explanation import Explanation, explain
    from dkernel.leaves.export.onnx import to_onnx
    from dkernel.leaves.look.look import Look, look
    from dkernel.leaves.objects.strings_and_sets import SetKernel, SpectrumKernel
    from dkernel.leaves.transforms.binning import BinningFeatures
    from dkernel.leaves.transforms.cca import KernelCCA
    from dkernel.leaves.transforms.clustering import KernelKMeans
    from dkernel.leaves.transforms.decomposition import KernelPCA
    from dkernel.leaves.transforms.kernel_features import KernelFeatures
    from dkernel.leaves.transforms.kernel_maps import FourierFeatures, NystromFeatures
    from dkernel.leaves.transforms.one_class import OneClassSVM
    from dkernel.leaves.transforms.perceptron import KernelPerceptron
    from dkernel.leaves.transforms.spectral_clustering import SpectralClustering
    from dkernel.leaves.tuning.tuner import Tuner
    from dkernel.model.local_settings import Grids
    from dkernel.model.model_file import save
    from dkernel.version import __version__

__all__ = [
    "AdditiveChi2",
    "ArcCosine",
    "BinningFeatures",
    "Cauchy",
    "Cells",
    "Exp",
    "Explanation",
    "Exponential",
    "FeatureMapKernel",
    "FourierFeatures",
    "FunctionKernel",
    "Gaussian",
    "Geometric",
    "Grids",
    "KernelCCA",
    "KernelClassifier",
    "KernelFeatures",
    "KernelKMeans",
    "KernelPCA",
    "KernelPerceptron",
    "KernelRegressor",
    "Laplacian",
    "Linear",
    "Look",
    "Matern",
    "Normalized",
    "NystromFeatures",
    "OneClassSVM",
    "Polynomial",
    "PowerSeries",
    "ProductCauchy",
    "RationalQuadratic",
    "SetKernel",
    "SpectralClustering",
    "SpectrumKernel",
    "Tuner",
    "Weighted",
    "__version__",
    "errors",
    "explain",
    "gram",
    "is_psd",
    "load",
    "look",
    "nystrom_operator",
    "open_source",
    "parse",
    "register",
    "save",
    "score",
    "to_onnx",
]

_NAMES = {
    "dkernel.data.opening": "open_source",
    "dkernel.estimators": "KernelClassifier KernelRegressor",
    "dkernel.estimators.loading": "load",
    "dkernel.estimators.scoring": "score",
    "dkernel.kernels": (
        "AdditiveChi2 ArcCosine Cauchy Exp Exponential FeatureMapKernel FunctionKernel Gaussian Geometric Laplacian "
        "Linear Matern Normalized Polynomial PowerSeries ProductCauchy RationalQuadratic Weighted parse "
        "register"
    ),
    "dkernel.model.local_settings": "Grids",
    "dkernel.model.model_file": "save",
    "dkernel.version": "__version__",
}
"""Module of the core -> its public names; those of the leaves are in their table."""
_MORE = {
    "AdditiveChi2",
    "ArcCosine",
    "Exp",
    "Explanation",
    "FeatureMapKernel",
    "FunctionKernel",
    "Geometric",
    "KernelCCA",
    "KernelPerceptron",
    "Look",
    "Normalized",
    "PowerSeries",
    "ProductCauchy",
    "RationalQuadratic",
    "SetKernel",
    "SpectralClustering",
    "SpectrumKernel",
    "Weighted",
    "gram",
    "is_psd",
    "nystrom_operator",
    "parse",
    "register",
}
"""Public names that few people use, which `dir` leaves out."""
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
    elif name in LEAF_OF_NAME:
        value = getattr(load_leaf(*LEAF_OF_NAME[name], f"dkernel.{name}"), name)
    else:
        raise AttributeError(f"module 'dkernel' has no attribute {name!r}.")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*(set(__all__) - _MORE), *(name for name in globals() if name.startswith("__"))})
