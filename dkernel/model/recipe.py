"""The recipe: all settings that decide a result, as one immutable value.

Kernel, feature map, sizes, loss, alpha, passes, seed, dtype. Workers, memory, files and time are not in it, so equal
recipes on equal data are equal models wherever they run. Command, config file, estimators and model file all say the
same words for the same thing, and they all pass through the checks of this room.
"""

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from dataclasses import replace as _replace
from typing import Any, NewType

from dkernel.errors import RecipeError
from dkernel.features import by_landmarks
from dkernel.kernels import Kernel, parse
from dkernel.losses.loss import Loss
from dkernel.losses.losses import parse_loss
from dkernel.model.local_settings import STAGES, Settings, parse_settings, stage_names, stage_word
from dkernel.model.parameters import PARAMETERS, Parameters
from dkernel.model.recipe_checks import GIVEN, LABELS, Label
from dkernel.model.solver_table import SOLVERS
from dkernel.numerics.validation import nearest_name

__all__ = ["GIVEN", "Label", "Recipe", "SettledRecipe"]

AUTO_KERNELS = ("gaussian", "laplacian")
CONSTANT = "Polynomial(degree=1, c=1.0)"  # its monomial of degree 0 is all that features="none" has


@dataclass(frozen=True)
class Recipe(Parameters):
    """All settings that decide a result, as an immutable value.

    minimize over w, b:  mean of loss(y, w . phi(x) + b) + alpha/2 |w|^2,  phi the feature map of `kernel`

    `dkernel.model.parameters.Parameters` says what each is.

    Examples
    --------
    >>> recipe = Recipe(kernel="gaussian", gamma=0.05, n_components=2000)
    >>> Recipe.from_dict(recipe.to_dict()) == recipe
    True
    >>> recipe.replace(scale="standar")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    dkernel.errors.RecipeError: scale='standar' is not valid. Did you mean 'standard'? ...
    """

    def __post_init__(self) -> None:
        for name, parameter in PARAMETERS.items():
            object.__setattr__(self, name, parameter.checked(getattr(self, name)))
        if self.task == "regress" and self.loss == "auto":
            object.__setattr__(self, "loss", "squared")
        self._check_together()

    def _check_together(self) -> None:
        loss = parse_loss(self.loss)
        _check_task(self.task, loss, self.loss)
        if decides := loss.predicts_numbers(self.task):
            which = f"{decides}={getattr(self, decides)!r}"
            given = {"class_weight": self.class_weight, "calibration": self.calibrates or None}
            for name, value in given.items():
                if value is not None:
                    raise RecipeError(
                        f"{name}={getattr(self, name)!r} is for classes and {which} predicts numbers. Leave {name} "
                        f"out, or use {loss.hint_for_classes}."
                    )
            if self.landmarks == "stratified":
                raise RecipeError("landmarks='stratified' takes rows of every class and task='regress' has none.")
        SOLVERS[self.solver].check(self.solver, loss, self.loss, 0 if self.polish == "auto" else int(self.polish))
        if self.names_local and SOLVERS[self.solver].in_memory:
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

    def _check_no_features(self) -> None:
        if not self.names_local:
            raise RecipeError(
                f"features='none' leaves everything to a local stage and local={self.local!r} may be none. Use "
                f"{stage_names()}."
            )
        possible = {"kernel": ("auto", CONSTANT), "gamma": ("auto",), "metric": ("auto", "identity")}
        for name, words in {**possible, "n_components": ("auto", 1)}.items():
            if getattr(self, name) not in words:
                raise RecipeError(f"{name}={getattr(self, name)!r} has no part in features='none'. Leave {name} out.")

    def replace(self, **changes: Any) -> "Recipe":
        """A recipe with these parameters and all others as here."""
        for name in changes:
            _refuse_unknown(name)
        return _replace(self, **changes)

    def with_passes(self) -> "Recipe":
        """The recipe for rows that come in parts: solver="auto" then is the one that makes passes."""
        return self.replace(solver="psgd") if self.solver == "auto" else self

    @property
    def components_open(self) -> bool:
        """True if a sample may say how many components are enough."""
        is_open = self.n_components == "auto" and self.landmarks == "uniform"
        return is_open and not SOLVERS[self.solver].in_memory

    @property
    def calibrates(self) -> bool:
        """True if a calibration was asked for by name."""
        return self.calibration not in ("auto", "none")

    @property
    def division(self) -> tuple[str, str] | None:
        """The kind and the column of `holdout_by`; None for a random holdout."""
        kind, _, column = self.holdout_by.partition(":")
        return (kind, column) if column else None

    @property
    def constant_map(self) -> bool:
        """True if the map is a constant, which leaves everything to a local stage."""
        return self.features == "none"

    @property
    def local_stage(self) -> str:
        """The word of the local stage, without its settings."""
        return stage_word(self.local)

    def local_as(self, word: str) -> str:
        """The text of a local stage, with its settings where it is the one that was asked for."""
        return self.local if self.local_stage == word else word

    def local_words(self, stages: Collection[str]) -> tuple[str, ...]:
        """The words of `local` that are left open where these stages may be fitted.

        Examples
        --------
        >>> [Recipe(local=text).local_words(["cells"]) for text in ("auto", "grids(n_grids=64)", "none")]
        [('none', 'cells'), ('grids',), ('none',)]
        """
        return ("none", *stages) if self.local == "auto" else (self.local_stage,)

    @property
    def names_local(self) -> bool:
        """True if a local stage is asked for by its name."""
        return self.local_stage in STAGES

    def settings(self, stage: type[Settings]) -> Settings:
        """The settings of a local stage; those of another one are its defaults."""
        settings = parse_settings(self.local)
        return settings if isinstance(settings, stage) else stage()

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
        """The parameters as JSON has them, `class_weight` as pairs."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        if isinstance(self.class_weight, Mapping):
            values["class_weight"] = [[label, weight] for label, weight in self.class_weight.items()]
        return values | {"categorical": list(self.categorical)} if isinstance(self.categorical, tuple) else values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Recipe":
        """The recipe that `to_dict` wrote; names left out have their defaults."""
        values = dict(values)
        for name in values:
            _refuse_unknown(name)
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


def _check_task(task: str, loss: Loss, text: str) -> None:
    if task == "classify" and not loss.classifies:
        raise RecipeError(
            f"loss={text!r} is for numbers and task='classify' predicts classes. Use loss='squared_hinge'."
        )
    if task == "regress" and not loss.regresses:
        raise RecipeError(f"loss={loss.text!r} is for classes and task='regress' predicts numbers. Use loss='squared'.")
