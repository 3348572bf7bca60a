"""The recipe: everything that decides a result, in one value that can be written down and read back.

Kernel, feature map, sizes, loss, alpha, passes, seed, dtype. Workers, memory, files and time are not in it, so equal
recipes on equal data are equal models wherever they run. Command, config file, estimators and model file all say the
same words for the same thing, and they all pass through the checks of this room.
"""

import hashlib
import json
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from dataclasses import replace as _replace
from typing import Any

from dkernel.errors import RecipeError
from dkernel.features import FAST, FEATURES, FORMS
from dkernel.features.scaling import SCALINGS
from dkernel.kernels import GAMMA_WORDS, SAMPLINGS, Kernel, parse
from dkernel.linear.calibration import CALIBRATIONS
from dkernel.linear.losses import LOSSES, Loss, loss_named
from dkernel.validation import nearest_name

__all__ = ["CHOICES", "GIVEN", "Label", "Recipe"]

Label = bool | int | float | str

CHOICES: dict[str, tuple[str, ...]] = {
    "task": ("auto", "classify", "regress"),
    "gamma": GAMMA_WORDS,
    "features": tuple(FEATURES),
    "n_components": ("auto",),
    "passes": ("auto",),
    "polish": ("auto",),
    "rounds": ("auto",),
    "landmarks": ("uniform", "stratified", "kmeans", "leverage", "rpcholesky"),
    "sampling": ("auto", *SAMPLINGS, *FAST),
    "form": FORMS,
    "loss": tuple(LOSSES),
    "alpha": ("auto",),
    "solver": ("psgd", "exact", "normal", "pcg", "lbfgs"),
    "scale": ("auto", *SCALINGS),
    "metric": ("auto", "identity", "diagonal", "full"),
    "class_weight": ("balanced",),
    "calibration": tuple(CALIBRATIONS),
    "dtype": ("float32", "float64"),
    "local": ("none", "grids"),
    "n_grids": ("auto",),
}
"""The words that each parameter understands; some take numbers too."""

AUTO_KERNELS = ("gaussian", "laplacian")
# Younger than the first model files, and what there was before: a text without them means that, and is what it was.
YOUNGER: Mapping[str, Any] = {"solver": "psgd", "polish": 0, "calibration": None, "patience": 0,
    "local": "none", "n_grids": "auto",
}  # fmt: skip

GIVEN = "given"  # landmarks that were no rule's choice: the model holds them


@dataclass(frozen=True)
class Recipe:
    """Everything that decides a result; a value that is made, compared, written and read, never changed.

    minimize over w, b:  mean of loss(y, w . phi(x) + b) + alpha/2 |w|^2,  phi the feature map of `kernel`

    Parameters
    ----------
    kernel : expression, "gaussian" or "0.5 * Laplacian(gamma=0.1) + Linear()", after a fit the expression with numbers;
        "auto" chooses from Gaussian, Laplacian and their sums
    metric : "full" and "diagonal" learn the inner product of the inputs from a first fit, "auto" where that is a help
        and gamma is open
    gamma : fills a kernel given by name, or one with gamma="auto" in it
    rank : of the Nystrom map, None for all that the whitening keeps
    landmarks : the rule that chooses them; "given" in the record of a fit that was given an array of them
    features : one of `dkernel.features.FEATURES`, which says what each is
    form : of the Fourier map, sin/cos pairs or cos + offset; "exponential" has the columns of the pairs
    loss : one of `dkernel.linear.losses`; "huber(1.35)", "epsilon_insensitive(0.1)" and "quantile(0.5)" may have
        another number, the first two in standard deviations of the targets
    alpha : a number; "auto"; or "C=10", as of support vector machines: 1 / (C n), n the weight of the rows learned from
    solver : "psgd", preconditioned stochastic gradients; of the exact optimum "normal" (squared loss, one pass, every
        alpha), "pcg" (squared loss), "lbfgs" (smooth losses), and of up to 4,096 rows, with all of them as landmarks
        and none held out, "exact" (every loss but the perceptron's)
    passes : readings of the data; "auto", 1, or 2 by sizes; of "pcg" and "lbfgs" the most, 100 where it is 1
    patience : passes of "psgd" in a row, that end them if none has lowered the loss on the holdout; 0 for none
    rounds : updates of each pass; "auto", 32 to 64: more of many rows that are few for their columns or much work
    polish : at most so many passes of "pcg" or "lbfgs" after those of "psgd"; "auto": see `problem.sizes`
    class_weight : None, "balanced", or {label: weight}
    positive : this label against the rest
    holdout : share of the rows kept out of training to judge by; 0 for none
    calibration : None, or how the holdout makes probabilities of the scores: "platt" or "isotonic"
    local : "grids", random binning fitted to what the features leave, left out where the holdout gains nothing
    n_grids : of "grids", rounded up to a multiple of 16; "auto" by rows

    Examples
    --------
    >>> recipe = Recipe(kernel="gaussian", gamma=0.05, n_components=2000)
    >>> Recipe.from_dict(recipe.to_dict()) == recipe
    True
    >>> recipe.replace(form="pair")
    Traceback (most recent call last):
    ...
    dkernel.errors.RecipeError: form='pair' is not valid. Did you mean 'pairs'? Possible: pairs | offset | exponential.
    """

    task: str = "auto"
    kernel: str = "auto"
    gamma: str | float = "auto"
    features: str = "auto"
    n_components: str | int = "auto"
    rank: int | None = None
    landmarks: str = "uniform"
    sampling: str = "auto"
    form: str = "pairs"
    loss: str = "squared_hinge"
    alpha: str | float = "auto"
    solver: str = "psgd"
    passes: str | int = "auto"
    patience: int = 0
    polish: str | int = "auto"
    rounds: str | int = "auto"
    scale: str = "auto"
    metric: str = "auto"
    class_weight: str | Mapping[Label, float] | None = field(default=None, hash=False)
    positive: Label | None = None
    holdout: float = 0.05
    seed: int = 0
    dtype: str = "float32"
    calibration: str | None = None
    local: str = "none"
    n_grids: str | int = "auto"

    def __post_init__(self) -> None:
        for name, check in _CHECKS.items():
            object.__setattr__(self, name, check(name, getattr(self, name)))
        self._check_together()

    def _check_together(self) -> None:
        loss = loss_named(self.loss)
        if self.task == "classify" and not loss.classifies:
            raise RecipeError(
                f"loss={self.loss!r} is for numbers and task='classify' predicts classes. Use loss='squared_hinge'."
            )
        if self.task == "regress" and not loss.regresses:
            raise RecipeError(
                f"loss={self.loss!r} is for classes and task='regress' predicts numbers. Use loss='squared'."
            )
        if self.task == "regress" or not loss.classifies:
            which = "task='regress'" if self.task == "regress" else f"loss={self.loss!r}"
            other = "use task='classify'" if loss.classifies else "use a loss for classes"
            for name in ("class_weight", "positive", "calibration"):
                if getattr(self, name) is not None:
                    raise RecipeError(
                        f"{name}={getattr(self, name)!r} is for classes and {which} predicts numbers. Leave {name} "
                        f"out, or {other}."
                    )
            if self.landmarks == "stratified":
                raise RecipeError("landmarks='stratified' takes rows of every class and task='regress' has none.")
        self._check_solver(loss)
        if self.calibration and self.loss == "softmax":
            raise RecipeError(
                f"calibration={self.calibration!r} makes probabilities of scores, and those of loss='softmax' stand "
                "for probabilities. Leave calibration out, or use loss='logistic'."
            )
        if self.calibration and (not self.holdout or self.solver == "exact"):
            which, instead = ("solver='exact'", "solver='psgd'") if self.holdout else ("holdout=0", "holdout=0.05")
            raise RecipeError(
                f"calibration={self.calibration!r} is fitted on the rows of the holdout, and {which} keeps none. Use "
                f"{instead}."
            )
        if self.local != "none" and self.solver == "exact":
            raise RecipeError(
                f"local={self.local!r} is judged on the rows of the holdout, and solver='exact' keeps none. Use "
                "solver='psgd'."
            )
        if self.landmarks != "uniform" and self.features not in ("auto", "nystrom"):
            raise RecipeError(
                f"landmarks={self.landmarks!r} is for Nystrom features and features={self.features!r} have no "
                "landmarks. Leave landmarks out, or use features='nystrom'."
            )
        if isinstance(self.n_components, int) and self.rank is not None and self.rank > self.n_components:
            raise RecipeError(
                f"rank={self.rank} is more than n_components={self.n_components}: a map of "
                f"{self.n_components} components has at most that rank. Lower rank or raise n_components."
            )

    def _check_solver(self, loss: Loss) -> None:
        if self.solver in ("normal", "pcg") and self.loss != "squared":
            raise RecipeError(
                f"solver={self.solver!r} is for loss='squared' and here loss={self.loss!r}. Use loss='squared', or "
                f"solver={'lbfgs' if loss.smooth else 'psgd'!r}."
            )
        polish = 0 if self.polish == "auto" else self.polish
        solvable = loss.smooth or (self.solver == "exact" and loss.boxed)
        if (self.solver in ("lbfgs", "exact") or polish) and not solvable:
            which = f"solver={self.solver!r}" if self.solver != "psgd" else f"polish={self.polish}"
            raise RecipeError(
                f"{which} needs a loss without kinks and loss={self.loss!r} has them. Use solver='psgd' without "
                f"polish, or loss={'huber' if loss.regresses else 'squared_hinge'!r}."
            )
        if polish and self.solver != "psgd":
            raise RecipeError(
                f"polish={self.polish} follows solver='psgd', and solver={self.solver!r} finds the optimum itself. "
                "Leave polish out."
            )

    def replace(self, **changes: Any) -> "Recipe":
        """A recipe with these parameters and all others as here."""
        for name in changes:
            _refuse_unknown(name)
        return _replace(self, **changes)

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The kernels that a fit chooses from, the cheapest first; a gamma that is given is the Gaussian's."""
        several = AUTO_KERNELS if self.gamma == "auto" else AUTO_KERNELS[:1]
        return tuple(map(parse, several if self.kernel == "auto" else (self.kernel,)))

    def for_columns(self, names: Sequence[str]) -> "Recipe":
        """The recipe with the columns that its kernel names found among the columns of the data."""
        kernel = self.kernels[0]
        return self.replace(kernel=repr(kernel.bind_columns(names))) if kernel.column_names else self

    def to_dict(self) -> dict[str, Any]:
        """The parameters as JSON has them, `class_weight` as pairs; those of YOUNGER where they are something else."""
        names = [f.name for f in fields(self) if f.name not in YOUNGER or getattr(self, f.name) != YOUNGER[f.name]]
        values = {name: getattr(self, name) for name in names}
        if isinstance(self.class_weight, Mapping):
            values["class_weight"] = [[label, weight] for label, weight in self.class_weight.items()]
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Recipe":
        """The recipe that `to_dict` wrote; names left out have their defaults, or what YOUNGER says."""
        for name in values:
            _refuse_unknown(name)
        values = {**YOUNGER, **values}
        if isinstance(pairs := values.get("class_weight"), list | tuple):
            if not all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs):
                raise RecipeError(f"class_weight={pairs!r} is a list; pairs [label, weight] are needed.")
            if not all(isinstance(label, _LABELS) for label, _ in pairs):
                raise RecipeError(f"class_weight={pairs!r}: a label is a bool, a number or a string.")
            values["class_weight"] = dict(pairs)
        return cls(**values)

    def to_text(self) -> str:
        """One line of JSON, the names in order, so that equal recipes are equal texts."""
        return json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"), allow_nan=False)

    @classmethod
    def from_text(cls, text: str) -> "Recipe":
        """The recipe that `to_text` wrote."""
        try:
            values = json.loads(text)
        except ValueError as error:
            raise RecipeError(f"The text of a recipe is not JSON: {error}. Use what Recipe.to_text() gives.") from error
        if not isinstance(values, dict):
            raise RecipeError(f"The text of a recipe holds a {type(values).__name__}; an object is needed.")
        return cls.from_dict(values)

    @property
    def cost(self) -> float | None:
        """Of alpha="C=10" the 10, the weight of the sum of the losses beside |w|^2 / 2; else None."""
        return float(self.alpha[2:]) if isinstance(self.alpha, str) and self.alpha.startswith("C=") else None

    @property
    def digest(self) -> str:
        """sha256 of the text: the recipe's name in logs and run records."""
        return hashlib.sha256(self.to_text().encode()).hexdigest()


_LABELS = (bool, int, float, str)


def _refuse_unknown(name: str) -> None:
    names = [f.name for f in fields(Recipe)]
    if name not in names:
        raise RecipeError(f"A recipe has no parameter {name!r}.{nearest_name(str(name), names)}")


def _plain(value: Any) -> Any:
    """The Python value of a numpy scalar, whose repr and JSON would differ from the same number's."""
    return value.item() if hasattr(value, "dtype") and getattr(value, "ndim", None) == 0 else value


def _refuse(name: str, value: Any, needed: str) -> RecipeError:
    words = CHOICES.get(name, ())
    hint = nearest_name(value, words) if isinstance(value, str) and words else ""
    hint = hint if hint.startswith(" Did") else ""
    return RecipeError(f"{name}={value!r} is not valid.{hint} Possible: {needed}.")


def _word(name: str, value: Any) -> str:
    if not (isinstance(value, str) and value in CHOICES[name]):
        raise _refuse(name, value, " | ".join(CHOICES[name]))
    return str(value)


def _loss(name: str, value: Any) -> str:
    if isinstance(value, str) and "(" in value:
        return loss_named(value).text
    return _word(name, value)


def _whole(least: int) -> Callable[[str, Any], int]:
    def check(name: str, value: Any) -> int:
        try:
            number = -1 if isinstance(_plain(value), bool) else operator.index(value)
        except TypeError:
            number = -1
        if number < least:
            raise _refuse(name, value, " | ".join([*CHOICES.get(name, ()), f"a whole number of at least {least}"]))
        return number

    return check


def _real(needed: str, holds: Callable[[float], bool]) -> Callable[[str, Any], float]:
    def check(name: str, value: Any) -> float:
        plain = _plain(value)
        try:
            number = math.nan if isinstance(plain, bool) or not isinstance(plain, int | float) else float(plain)
        except OverflowError:
            number = math.inf
        if not holds(number):
            raise _refuse(name, value, " | ".join([*CHOICES.get(name, ()), needed]))
        return number

    return check


def _word_or(check: Callable[[str, Any], Any]) -> Callable[[str, Any], Any]:
    def either(name: str, value: Any) -> Any:
        return str(value) if isinstance(value, str) and value in CHOICES[name] else check(name, value)

    return either


def _or_none(check: Callable[[str, Any], Any]) -> Callable[[str, Any], Any]:
    return lambda name, value: None if value is None else check(name, value)


def _kernel(name: str, value: Any) -> str:  # noqa: ARG001 - the refusal of `parse` names the kernel
    if isinstance(value, str) and value == "auto":
        return value
    kernel = parse(value)
    return value if isinstance(value, str) else repr(kernel)


def _label(name: str, value: Any) -> Label:
    label = _plain(value)
    if not isinstance(label, _LABELS) or (isinstance(label, float) and not math.isfinite(label)):
        raise _refuse(name, value, "a bool, a finite number or a string")
    return str(label) if isinstance(label, str) else label


def _class_weight(name: str, value: Any) -> str | dict[Label, float] | None:
    if value is None or isinstance(value, str):
        return None if value is None else _word(name, value)
    if not isinstance(value, Mapping) or not value:
        raise _refuse(name, value, "None | balanced | {label: weight}")
    pairs: list[tuple[Label, float]] = [
        (_label(f"{name} label", label), _weight(f"{name}[{label!r}]", weight)) for label, weight in value.items()
    ]
    return dict(sorted(pairs, key=_by_label))


def _by_label(pair: tuple[Label, float]) -> tuple[str, Any]:
    # Text and numbers have no order among themselves; equal dictionaries must still be equal texts.
    return ("text", pair[0]) if isinstance(pair[0], str) else ("number", pair[0])


_weight = _real("a finite number of at least 0", lambda v: math.isfinite(v) and v >= 0)


def _alpha(name: str, value: Any) -> str | float:
    C = re.fullmatch(r"C=(\d+\.?\d*(e[+-]?\d+)?)", value.replace(" ", "")) if isinstance(value, str) else None
    if C is not None and 0 < float(C[1]) < math.inf:
        return f"C={float(C[1])!r}"
    return _word_or(_strength)(name, value)


_strength = _real("a finite number of at least 0 | C=NUMBER above 0", lambda v: math.isfinite(v) and v >= 0)

_CHECKS: Mapping[str, Callable[[str, Any], Any]] = {
    "task": _word,
    "kernel": _kernel,
    "gamma": _word_or(_real("a finite number above 0", lambda v: math.isfinite(v) and v > 0)),
    "features": _word,
    "n_components": _word_or(_whole(1)),
    "rank": _or_none(_whole(1)),
    "landmarks": lambda name, value: GIVEN if isinstance(value, str) and value == GIVEN else _word(name, value),
    "sampling": _word,
    "form": _word,
    "loss": _loss,
    "alpha": _alpha,
    "solver": _word,
    "passes": _word_or(_whole(1)),
    "patience": _whole(0),
    "polish": _word_or(_whole(0)),
    "rounds": _word_or(_whole(1)),
    "scale": lambda name, value: _word(name, "none" if value is None else value),
    "metric": _word,
    "class_weight": _class_weight,
    "positive": _or_none(_label),
    "holdout": _real("a share of at least 0 and less than 1", lambda v: 0 <= v < 1),
    "seed": _whole(0),
    "dtype": _word,
    "calibration": _or_none(_word),
    "local": _word,
    "n_grids": _word_or(_whole(1)),
}
