"""The types of the parameters that estimators share, and advice for parameters of other libraries."""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from dkernel.errors import RecipeError
from dkernel.estimators.docstrings import fill_docstrings
from dkernel.features import FORMS
from dkernel.kernels import Kernel
from dkernel.model.local.binning import MOST_BITS
from dkernel.model.local_settings import PARAMETERS_SENTENCE, LocalSettings, sections
from dkernel.model.parameters import PARAMETERS
from dkernel.model.recipe_checks import Parameter, positive_number, real, refusal, whole, word, word_or
from dkernel.numerics.validation import nearest_name

KernelLike = str | Kernel
LandmarksLike = str | NDArray[Any]
Seed = int | np.random.RandomState | None
Local = str | LocalSettings
FolderPath = str | PathLike[str] | None
ClassWeight = str | Mapping[Any, float] | None
DateFormat = Mapping[str, str] | None
Callbacks = Sequence[Callable[[dict[str, Any]], Any]] | None

PARAMETER_SYNONYMS: Mapping[str, tuple[str, ...]] = {
    "C": ("alpha='C=1'",),
    "n_columns": ("n_map_components", "n_components"),
    "n_landmarks": ("n_components",),
    "n_jobs": (),
    "probability": ("calibration",),
    "max_iter": ("passes",),
    "epochs": ("passes",),
    "n_epochs": ("passes",),
    "degree": ("kernel='Polynomial(degree=3)'",),
    "coef0": ("kernel='Polynomial(degree=3, c=1.0)'",),
    "sigma": ("kernel='Gaussian(sigma=1.0)'",),
    "epsilon": ("loss='epsilon_insensitive(0.1)'",),
    "seed": ("random_state",),
    "grid": ("param_grid",),
    "param_distributions": ("param_grid",),
    "early_stopping": ("callbacks",),
    "n_iter_no_change": ("callbacks",),
    "validation_fraction": ("holdout",),
    "penalty": ("alpha",),
    "reg_lambda": ("alpha",),
    "learning_rate": (),
    "tol": ("passes",),
}
"""Parameter of another library -> what says it here; nothing where nothing is needed."""


_OF_ESTIMATORS = (
    Parameter(
        "random_state",
        None,
        "Seed; None is 0, so a fit can always be repeated. A RandomState draws the seed.",
        kind="int, numpy Generator or RandomState",
    ),
    Parameter(
        "categorical_features",
        "from_dtype",
        PARAMETERS["categorical"].text.replace(
            '"auto" is text and stored categories, names are these columns too',
            '"from_dtype" is text and categories of data frames, None is none, a list is these columns too',
        ),
        words=("from_dtype",),
        kind="None, list",
    ),
    Parameter(
        "dtype",
        "auto",
        'Precision in which X is read; "auto" is float64 if its first rows have digits that float32 cannot hold.',
        words=("auto", *PARAMETERS["dtype"].words),
    ),
    Parameter(
        "checkpoint",
        None,
        "Folder of the progress of `fit`. If it holds a stopped fit, the fit continues, to "
        "the same model; a folder of another fit is refused.",
        kind="str or path-like",
    ),
    Parameter(
        "callbacks",
        None,
        "Functions that are called with each new line of `history_`, a dict. If one returns "
        "True the passes end, and the best iterate so far is the model.",
        kind="list of callable",
    ),
    Parameter(
        "verbose",
        False,
        "If True, the fit prints phases, choices, loss and time left on stderr, as the command does.",
        kind="bool",
    ),
)
DOCUMENTED: Mapping[str, Parameter] = {**PARAMETERS, **{p.name: p for p in _OF_ESTIMATORS}}
"""Parameter of an estimator -> its default and sentences."""


def _truth(p: Parameter, value: Any) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise refusal(p, value, "True, False")
    return bool(value)


def _bins(p: Parameter, value: Any) -> int:
    number = whole(2)(p, value)
    if number.bit_count() != 1 or number > 1 << MOST_BITS:
        raise refusal(p, value, f"a power of two from 2 to 2**{MOST_BITS}")
    return number


_COUNTS = ("n_components", "n_map_components", "n_clusters", "n_grids", "max_iter")
_CHECKED: Mapping[str, Parameter] = {
    **{name: Parameter(name, None, "", whole(1)) for name in _COUNTS},
    "n_bins": Parameter("n_bins", None, "", _bins),
    "rank": Parameter("rank", None, "", whole(1)),
    "form": Parameter("form", "auto", "", word, ("auto", *FORMS)),
    "n_init": Parameter("n_init", None, "", word_or(whole(1)), ("auto",)),
    "tol": Parameter("tol", None, "", real("a finite number of at least 0", lambda v: 0 <= v < np.inf)),
    "nu": Parameter("nu", None, "", real("a share above 0 and at most 1", lambda v: 0 < v <= 1)),
    "alpha": Parameter("alpha", None, "", positive_number),
    "fit_intercept": Parameter("fit_intercept", None, "", _truth),
}
"""Parameter of an estimator that is no parameter of a recipe, or has a narrower meaning there -> its check."""


def check_parameters(estimator: Any) -> None:
    """Refuse values of the parameters of transformers, clusterings and the like that have no meaning.

    None passes where it is the default.
    """
    for name, p in inspect.signature(type(estimator).__init__).parameters.items():
        value = getattr(estimator, name, None)
        if name in _CHECKED and not (value is None and p.default is None):
            _CHECKED[name].checked(value)


class UnknownParameterError(RecipeError, TypeError):
    """An estimator has no parameter of that name."""


class NamedParameters(BaseEstimator):
    """Base class of estimators: a parameter that they do not have is answered by the one that is meant."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        task, names = getattr(cls, "_task", ""), inspect.signature(cls.__init__).parameters
        known = {name: DOCUMENTED[name] for name in names if name in DOCUMENTED}  # a user's class may have others
        fill_docstrings(cls, {PARAMETERS_SENTENCE: sections(known, task)} if task else {})
        if "__init__" in cls.__dict__:
            cls.__init__ = _refuse_unknown(cls.__dict__["__init__"])  # type: ignore[method-assign]

    def _set_parameters(self, arguments: Mapping[str, Any]) -> None:
        """Make the arguments of `__init__`, its `locals()`, the attributes that scikit-learn asks for."""
        for name in arguments.keys() - {"self"}:
            setattr(self, name, arguments[name])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _refuse_unknown(init: Callable[..., None]) -> Callable[..., None]:
    names = list(inspect.signature(init).parameters)[1:]

    @functools.wraps(init)
    def checked(self: Any, *args: Any, **parameters: Any) -> None:
        for name in parameters:
            if name not in names:
                raise UnknownParameterError(f"{type(self).__name__} has no parameter {name!r}.{_hint(name, names)}")
        init(self, *args, **parameters)

    return checked


def _hint(name: str, names: Sequence[str]) -> str:
    if name not in PARAMETER_SYNONYMS:
        return nearest_name(name, names)
    for words in PARAMETER_SYNONYMS[name]:
        if words.partition("=")[0] in names:
            return f" Use {words}."
    return "" if PARAMETER_SYNONYMS[name] else " It needs none."
