"""The types of the parameters that estimators share, and advice for parameters of other libraries."""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.errors import RecipeError
from dkernel.kernels import Kernel
from dkernel.validation import nearest_name

KernelLike = str | Kernel
Landmarks = str | NDArray[Any]
Seed = int | np.random.RandomState | None
Folder = str | PathLike[str] | None
ClassWeight = str | Mapping[Any, float] | None
Callbacks = Sequence[Callable[[dict[str, Any]], Any]] | None

SYNONYMS: Mapping[str, tuple[str, ...]] = {
    "C": ("alpha='C=1'",), "n_columns": ("n_map_components", "n_components"), "n_landmarks": ("n_components",),
    "n_jobs": (), "probability": ("calibration='platt'",), "max_iter": ("passes",),
    "epochs": ("passes",), "n_epochs": ("passes",), "degree": ("kernel='Polynomial(degree=3)'",),
    "coef0": ("kernel='Polynomial(degree=3, c=1.0)'",), "sigma": ("kernel='Gaussian(sigma=1.0)'",),
    "epsilon": ("loss='epsilon_insensitive(0.1)'",), "seed": ("random_state",), "grid": ("param_grid",),
    "param_distributions": ("param_grid",), "early_stopping": ("patience",), "n_iter_no_change": ("patience",),
    "validation_fraction": ("holdout",), "penalty": ("alpha",), "reg_lambda": ("alpha",), "learning_rate": (),
    "tol": ("passes",),
}  # fmt: skip
"""Parameter of another library, or of an earlier version -> what says it here; nothing where nothing is needed."""


class UnknownParameterError(RecipeError, TypeError):
    """An estimator has no parameter of that name."""


class NamedParameters:
    """Base class of estimators: a parameter that they do not have is answered by the one that is meant."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__init__" in cls.__dict__:
            cls.__init__ = _answering(cls.__dict__["__init__"])  # type: ignore[method-assign]


def _answering(init: Callable[..., None]) -> Callable[..., None]:
    names = list(inspect.signature(init).parameters)[1:]

    @functools.wraps(init)
    def checked(self: Any, *args: Any, **parameters: Any) -> None:
        for name in parameters:
            if name not in names:
                raise UnknownParameterError(f"{type(self).__name__} has no parameter {name!r}.{_meant(name, names)}")
        init(self, *args, **parameters)

    return checked


def _meant(name: str, names: Sequence[str]) -> str:
    if name not in SYNONYMS:
        return nearest_name(name, names)
    for words in SYNONYMS[name]:
        if words.partition("=")[0] in names:
            return f" Use {words}."
    return "" if SYNONYMS[name] else " It needs none."
