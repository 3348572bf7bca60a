"""dkernel: kernel machines for data larger than memory, on Dask.

Every public name is here, and imported when it is first used: `import dkernel` alone costs next to nothing. `dir` has
the names that most people use, and `dkernel.__all__` all of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dkernel import errors as errors
from dkernel.leaf_table import LEAF_OF_NAME, load_leaf

if TYPE_CHECKING:
    from dkernel.data.opening import open_source as open_source
    from dkernel.estimators import KernelClassifier as KernelClassifier, KernelRegressor as KernelRegressor
    from dkernel.estimators.loading import load as load
    from dkernel.estimators.scoring import score as score
    from dkernel.kernels import (
        AdditiveChi2 as AdditiveChi2,
        ArcCosine as ArcCosine,
        Cauchy as Cauchy,
        Exp as Exp,
        Exponential as Exponential,
        FeatureMapKernel as FeatureMapKernel,
        FunctionKernel as FunctionKernel,
        Gaussian as Gaussian,
        Geometric as Geometric,
        Laplacian as Laplacian,
        Linear as Linear,
        Matern as Matern,
        Normalized as Normalized,
        Polynomial as Polynomial,
        PowerSeries as PowerSeries,
        ProductCauchy as ProductCauchy,
        RationalQuadratic as RationalQuadratic,
        Weighted as Weighted,
    )
    from dkernel.kernels.parse import parse as parse
    from dkernel.kernels.registry import register as register
    from dkernel.leaves.analysis.gram_matrix import gram as gram
    from dkernel.leaves.analysis.nystrom_operator import nystrom_operator as nystrom_operator
    from dkernel.leaves.analysis.psd_check import is_psd as is_psd
    from dkernel.leaves.cells.parameters import Cells as Cells
    from dkernel.leaves.explanation.explanation import Explanation as Explanation, explain as explain
    from dkernel.leaves.export.onnx import to_onnx as to_onnx
    from dkernel.leaves.look.look import Look as Look, look as look
    from dkernel.leaves.objects.strings_and_sets import SetKernel as SetKernel, SpectrumKernel as SpectrumKernel
    from dkernel.leaves.transforms.binning import BinningFeatures as BinningFeatures
    from dkernel.leaves.transforms.cca import KernelCCA as KernelCCA
    from dkernel.leaves.transforms.clustering import KernelKMeans as KernelKMeans
    from dkernel.leaves.transforms.decomposition import KernelPCA as KernelPCA
    from dkernel.leaves.transforms.kernel_features import KernelFeatures as KernelFeatures
    from dkernel.leaves.transforms.kernel_maps import (
        FourierFeatures as FourierFeatures,
        NystromFeatures as NystromFeatures,
    )
    from dkernel.leaves.transforms.one_class import OneClassSVM as OneClassSVM
    from dkernel.leaves.transforms.perceptron import KernelPerceptron as KernelPerceptron
    from dkernel.leaves.transforms.spectral_clustering import SpectralClustering as SpectralClustering
    from dkernel.leaves.tuning.tuner import Tuner as Tuner
    from dkernel.model.local_settings import Grids as Grids
    from dkernel.model.model_file import save as save
    from dkernel.version import __version__ as __version__

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
__all__ = ["errors", *_HOME, *LEAF_OF_NAME]


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
