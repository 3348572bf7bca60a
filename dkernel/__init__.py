"""dkernel: kernel machines for data larger than memory, on Dask.

Every public name is here, and imported when it is first used: `import dkernel` alone costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dkernel import errors

if TYPE_CHECKING:
    from dkernel.data import open_source
    from dkernel.estimators import FourierFeatures, KernelClassifier, KernelRegressor, NystromFeatures
    from dkernel.kernels import Gaussian, Laplacian, Linear, Polynomial
    from dkernel.kernels.parse import parse
    from dkernel.modelfile import load, save
    from dkernel.run.operator import nystrom_operator

    __version__: str

__all__ = [
    "FourierFeatures",
    "Gaussian",
    "KernelClassifier",
    "KernelRegressor",
    "Laplacian",
    "Linear",
    "NystromFeatures",
    "Polynomial",
    "__version__",
    "errors",
    "load",
    "nystrom_operator",
    "open_source",
    "parse",
    "save",
]

_HOME = {
    "FourierFeatures": "dkernel.estimators",
    "Gaussian": "dkernel.kernels",
    "KernelClassifier": "dkernel.estimators",
    "KernelRegressor": "dkernel.estimators",
    "Laplacian": "dkernel.kernels",
    "Linear": "dkernel.kernels",
    "NystromFeatures": "dkernel.estimators",
    "Polynomial": "dkernel.kernels",
    "load": "dkernel.modelfile",
    "nystrom_operator": "dkernel.run.operator",
    "open_source": "dkernel.data",
    "parse": "dkernel.kernels",
    "save": "dkernel.modelfile",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            value: Any = version("dkernel")
        except PackageNotFoundError:  # a checkout that is not installed
            value = "0+checkout"
    elif name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
    else:
        raise AttributeError(f"module 'dkernel' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
