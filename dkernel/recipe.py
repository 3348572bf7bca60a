"""The recipe: all settings that decide a result, as one immutable value.

Kernel, feature map, sizes, loss, alpha, passes, seed, dtype. Workers, memory, files and time are not in it, so equal
recipes on equal data are equal models wherever they run. Command, config file, estimators and model file all say the
same words for the same thing, and they all pass through the checks of this room.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from dataclasses import replace as _replace
from typing import Any, NewType

from dkernel.errors import RecipeError
from dkernel.features import by_landmarks
from dkernel.kernels import Kernel, parse
from dkernel.linear.losses import Loss, loss_named
from dkernel.linear.solvers.catalogue import SOLVERS
from dkernel.recipe_checks import CHECKS, CHOICES, GIVEN, LABELS, Label
from dkernel.validation import nearest_name

__all__ = ["CHOICES", "GIVEN", "Label", "Recipe", "SettledRecipe"]

AUTO_KERNELS = ("gaussian", "laplacian")
CONSTANT = "Polynomial(degree=1, c=1.0)"  # its monomial of degree 0 is all that features="none" has
# Younger than the first model files, and what there was before: a text without them means that, and is what it was.
YOUNGER: Mapping[str, Any] = {
    "solver": "psgd", "polish": 0, "calibration": None, "patience": 0, "categorical": "auto", "missing": "indicator",
    "local": "none", "n_grids": "auto", "cell_rows": "auto", "cell_overlap": "auto", "cell_partitions": 1,
    "dates": "calendar", "one_hot": "auto", "max_model_size": None,
    "effort": "normal", "max_seconds": None,
}  # fmt: skip


@dataclass(frozen=True)
class Recipe:
    """All settings that decide a result, as an immutable value.

    minimize over w, b:  mean of loss(y, w . phi(x) + b) + alpha/2 |w|^2,  phi the feature map of `kernel`

    Parameters
    ----------
    kernel : expression, "gaussian" or "0.5 * Laplacian(gamma=0.1) + Linear()", after a fit the expression with numbers;
        "auto" chooses from Gaussian, Laplacian and their sums
    metric : "full" and "diagonal" learn the inner product of the inputs from a first fit, "auto" where that is a help
        and gamma is open
    gamma : fills a kernel given by name, or one with gamma="auto" in it
    rank : directions of the Nystrom map, None for all that the whitening keeps
    landmarks : rule that chooses them; "given" in the record of a fit with an array of landmarks
    features : one of `dkernel.features.FEATURES`, which says what each is
    form : of the Fourier map, sin/cos pairs or cos + offset; "exponential" has the columns of the pairs
    loss : one of `dkernel.linear.losses`; "auto" is "squared" for numbers and "squared_hinge" for classes, or of
        several "softmax" with a linear kernel, where few rows are better learned so; "huber(1.35)",
        "epsilon_insensitive(0.1)" and "quantile(0.5)" may have another number, the first two in standard deviations of
        the targets
    alpha : a number; "auto"; or "C=10", as of support vector machines: 1 / (C n), n the weight of the rows learned from
    solver : "psgd", preconditioned stochastic gradients; the others find the optimum: "normal" (squared loss, one pass,
        every alpha), "pcg" (squared loss), "lbfgs" (smooth losses), and "exact" (every loss but the perceptron's, up to
        4,096 rows, all of them landmarks and none held out); "auto" is "exact" for so few rows where nothing asks for
        passes or held-out rows, else "psgd"
    passes : passes over the data; "auto" is 1 or 2 by sizes; upper limit for "pcg" and "lbfgs", 100 if it is 1
    patience : passes of "psgd" in a row without a lower loss on the holdout after which they stop; 0 for no limit
    rounds : updates of each pass; "auto" is 32 to 64, more for few rows per component or much work
    polish : at most so many passes of "pcg" or "lbfgs" after those of "psgd"; "auto": see `problem.sizes`
    class_weight : None, "balanced", or {label: weight}
    positive : this label against the rest
    holdout : share of the rows kept out of training to judge it; 0 for none
    calibration : None, or the curve from scores to probabilities, fitted to the holdout: "platt" or "isotonic"
    categorical : which features are categories: "auto", "none", or names beside those of "auto"
    missing : values of features: "indicator", "mean" or "error"; see `dkernel.encoding`
    local : stage that learns what the features leave: "grids" is random binning, "cells" exact machines of the cells of
        a partition; "auto" tries both where the machine is open, see `dkernel.training.local_stage`. Left out where
        the holdout gains nothing
    n_grids : of "grids", rounded up to a multiple of 16; "auto" by rows
    cell_rows : of "cells", the most rows of each
    cell_overlap : of "cells", rows beyond its walls that each learns from too, as a share of its own
    cell_partitions : of "cells", how often all rows are divided; the mean of their cells answers
    one_hot : features that grids take for one category together: "auto" looks for neighbouring ones that are never at
        work in the same row, "none", or groups of names or patterns, "soil*;wild*"
    max_model_size : bytes that the model file may have; of n_grids="auto" fewer are taken. None: 64 MiB or a
        hundredth of the data, and what is asked for by number may be more
    effort : "low", "normal" or "high", a multiple of what the choice and the local stage may cost
    max_seconds : that the fit is to take at most, on cores of a constant speed: see `dkernel.problem.budget`
    dates : "calendar", inputs of the year, month, weekday and hour beside the seconds, or "seconds" alone

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
    loss: str = "auto"
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
    categorical: str | tuple[str, ...] = "auto"
    missing: str = "indicator"
    local: str = "auto"
    n_grids: str | int = "auto"
    cell_rows: str | int = "auto"
    cell_overlap: str | float = "auto"
    cell_partitions: int = 1
    dates: str = "calendar"
    one_hot: str | tuple[tuple[str, ...], ...] = "auto"
    max_model_size: int | None = None
    effort: str = "normal"
    max_seconds: float | None = None

    def __post_init__(self) -> None:
        for name, check in CHECKS.items():
            object.__setattr__(self, name, check(name, getattr(self, name)))
        if self.task == "regress" and self.loss == "auto":
            object.__setattr__(self, "loss", "squared")
        self._check_together()

    def _check_together(self) -> None:
        loss = loss_named(self.loss)
        if self.task == "classify" and not loss.classifies:
            raise RecipeError(
                f"loss={self.loss!r} is for numbers and task='classify' predicts classes. Use loss='squared_hinge'."
            )
        if self.task == "regress" and not loss.regresses:
            raise RecipeError(
                f"loss={loss.text!r} is for classes and task='regress' predicts numbers. Use loss='squared'."
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
        if self.calibration and loss.joint:
            raise RecipeError(
                f"calibration={self.calibration!r} makes probabilities of scores, and those of loss={self.loss!r} "
                "stand for probabilities. Leave calibration out, or use loss='logistic'."
            )
        in_memory = SOLVERS[self.solver].in_memory
        if self.calibration and (not self.holdout or in_memory):
            by_solver = f"solver={self.solver!r}", "solver='psgd'"
            which, instead = by_solver if self.holdout else ("holdout=0", "holdout=0.05")
            raise RecipeError(
                f"calibration={self.calibration!r} is fitted on the rows of the holdout, and {which} keeps none. Use "
                f"{instead}."
            )
        if self.local not in ("auto", "none") and in_memory:
            raise RecipeError(
                f"local={self.local!r} is judged on the rows of the holdout, and solver={self.solver!r} keeps none. "
                "Use solver='psgd'."
            )
        if self.constant_map:
            self._check_no_features()
        if self.landmarks != "uniform" and not by_landmarks(self.features, auto=True):
            raise RecipeError(
                f"landmarks={self.landmarks!r} is for Nystrom features and features={self.features!r} have no "
                "landmarks. Leave landmarks out, or use features='nystrom'."
            )
        if isinstance(self.n_components, int) and self.rank is not None and self.rank > self.n_components:
            raise RecipeError(
                f"rank={self.rank} is more than n_components={self.n_components}: a map of "
                f"{self.n_components} components has at most that rank. Lower rank or raise n_components."
            )

    def _check_no_features(self) -> None:
        if self.local not in ("grids", "cells"):
            raise RecipeError(
                f"features='none' leaves everything to a local stage and local={self.local!r} may be none. Use "
                "local='grids' or local='cells'."
            )
        possible = {"kernel": ("auto", CONSTANT), "gamma": ("auto",), "metric": ("auto", "identity")}
        for name, words in {**possible, "n_components": ("auto", 1), "rank": (None,)}.items():
            if getattr(self, name) not in words:
                raise RecipeError(f"{name}={getattr(self, name)!r} has no part in features='none'. Leave {name} out.")

    def _check_solver(self, loss: Loss) -> None:
        solver = SOLVERS[self.solver]
        if solver.quadratic_only and not loss.quadratic:
            raise RecipeError(
                f"solver={self.solver!r} is for loss='squared' and here loss={self.loss!r}. Use loss='squared', or "
                f"solver={'lbfgs' if loss.smooth else 'psgd'!r}."
            )
        polish = 0 if self.polish == "auto" else self.polish
        if not solver.takes(loss) or (polish and solver.in_rounds and not loss.smooth):
            which = f"polish={self.polish}" if solver.takes(loss) else f"solver={self.solver!r}"
            raise RecipeError(
                f"{which} needs a loss without kinks and loss={self.loss!r} has them. Use solver='psgd' without "
                f"polish, or loss={'huber' if loss.regresses else 'squared_hinge'!r}."
            )
        if polish and not solver.in_rounds:
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
    def constant_map(self) -> bool:
        """True if the map is a constant, which leaves everything to a local stage."""
        return self.features == "none"

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The kernels that a fit chooses from, the cheapest first; a gamma that is given is the Gaussian's."""
        if self.constant_map:
            return (parse(CONSTANT),)
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
        if isinstance(self.categorical, tuple) and "categorical" in values:
            values["categorical"] = list(self.categorical)
        if isinstance(self.one_hot, tuple):
            values["one_hot"] = [list(group) for group in self.one_hot]
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Recipe":
        """The recipe that `to_dict` wrote; names left out have their defaults, or the values in YOUNGER."""
        for name in values:
            _refuse_unknown(name)
        values = {**YOUNGER, **values}
        if isinstance(pairs := values.get("class_weight"), list | tuple):
            if not all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs):
                raise RecipeError(f"class_weight={pairs!r} is a list; pairs [label, weight] are needed.")
            if not all(isinstance(label, LABELS) for label, _ in pairs):
                raise RecipeError(f"class_weight={pairs!r}: a label is a bool, a number or a string.")
            values["class_weight"] = dict(pairs)
        return cls(**values)

    def to_text(self) -> str:
        """One line of JSON, the names in order, so that equal recipes are equal texts."""
        return json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"), allow_nan=False)

    @property
    def cost(self) -> float | None:
        """The 10 of alpha="C=10", the weight of the sum of the losses beside |w|^2 / 2; else None."""
        return float(self.alpha[2:]) if isinstance(self.alpha, str) and self.alpha.startswith("C=") else None

    @property
    def digest(self) -> str:
        """sha256 of the text: the recipe's name in logs and run records."""
        return hashlib.sha256(self.to_text().encode()).hexdigest()


SettledRecipe = NewType("SettledRecipe", Recipe)
"""The recipe of a model: a fit has settled what the words of the recipe that was asked for left open."""


def _refuse_unknown(name: str) -> None:
    names = [f.name for f in fields(Recipe)]
    if name not in names:
        raise RecipeError(f"A recipe has no parameter {name!r}.{nearest_name(str(name), names)}")
