"""dkernel: kernel machines for data larger than memory, on Dask.

Every public name is here, and imported when it is first used: `import dkernel` alone costs next to nothing. `dir` has
the names that most people use, and `dkernel.__all__` all of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dkernel import errors

if TYPE_CHECKING:
    from dkernel.data import open_source
    from dkernel.estimators import (
        BinningFeatures,
        FourierFeatures,
        KernelCCA,
        KernelClassifier,
        KernelFeatures,
        KernelKMeans,
        KernelPCA,
        KernelPerceptron,
        KernelRegressor,
        NystromFeatures,
        OneClassSVM,
        SpectralClustering,
        Tuner,
    )
    from dkernel.estimators.explanation import Explanation, explain
    from dkernel.estimators.loading import load
    from dkernel.estimators.scoring import score
    from dkernel.inference.gram_matrix import gram
    from dkernel.inference.nystrom_operator import nystrom_operator
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
        SetKernel,
        SpectrumKernel,
        Weighted,
        is_psd,
    )
    from dkernel.kernels.parse import parse
    from dkernel.kernels.registry import register
    from dkernel.model.export.onnx import to_onnx
    from dkernel.model.local_settings import Cells, Grids
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
    "nystrom_operator",
    "open_source",
    "parse",
    "register",
    "save",
    "score",
    "to_onnx",
]

_NAMES = {
    "dkernel.data": "open_source",
    "dkernel.estimators": (
        "BinningFeatures FourierFeatures KernelCCA KernelClassifier KernelFeatures KernelKMeans KernelPCA "
        "KernelPerceptron KernelRegressor NystromFeatures OneClassSVM SpectralClustering Tuner"
    ),
    "dkernel.estimators.explanation": "Explanation explain",
    "dkernel.estimators.loading": "load",
    "dkernel.estimators.scoring": "score",
    "dkernel.model.export.onnx": "to_onnx",
    "dkernel.inference.gram_matrix": "gram",
    "dkernel.inference.nystrom_operator": "nystrom_operator",
    "dkernel.kernels": (
        "AdditiveChi2 ArcCosine Cauchy Exp Exponential FeatureMapKernel FunctionKernel Gaussian Geometric Laplacian "
        "Linear Matern Normalized Polynomial PowerSeries ProductCauchy RationalQuadratic SetKernel SpectrumKernel "
        "Weighted is_psd parse register"
    ),
    "dkernel.model.local_settings": "Cells Grids",
    "dkernel.model.model_file": "save",
    "dkernel.version": "__version__",
}
"""Module -> its public names."""
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
    else:
        from dkernel.model.parameters import hint_for_removed

        raise AttributeError(f"module 'dkernel' has no attribute {name!r}.{hint_for_removed(name)}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*(set(__all__) - _MORE), *(name for name in globals() if name.startswith("__"))})
