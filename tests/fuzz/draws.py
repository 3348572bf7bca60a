"""Random settings: a kernel of the catalogue, sums and products of them, and words and numbers of every parameter."""

import random
from typing import Any

from dkernel.kernels import GAMMA_WORDS
from dkernel.losses.losses import LOSSES
from dkernel.model.parameters import PARAMETERS as TABLE
from tests.kernels.catalogue import CATALOGUE

PLAIN = [repr(member.kernel) for member in CATALOGUE if member.width is None and not member.nonnegative]
NARROW = [repr(member.kernel) for member in CATALOGUE if member.width is not None]
NONNEGATIVE = [repr(member.kernel) for member in CATALOGUE if member.nonnegative]
OPEN = ["auto", "gaussian", "laplacian", "rbf", "cauchy", "exponential", "matern", "rationalquadratic", "productcauchy",
        "polynomial", "linear", "arccosine", "additivechi2", 'Gaussian(gamma="auto") + Linear()',
        '0.5 * Laplacian(gamma="median") + Gaussian(gamma="auto")', "Gaussian(gamma='scale') * Polynomial(degree=2)",
        "Normalized(Polynomial(degree=4)) + Linear()", "Polynomial(degree=12)", "Linear().on([0])"]  # fmt: skip

CHOICES = {name: p.words for name, p in TABLE.items() if p.words}
# What each parameter may be beside the words of the recipe; a word or number is drawn with the same chance.
NUMBERS: dict[str, tuple[Any, ...]] = {
    "gamma": (1e-6, 0.001, 0.1, 1.0, 30.0, 1e4),
    "n_components": (1, 2, 7, 16, 32, 64, 100, 200, 300),
    "passes": (1, 2, 3, 7),
    "patience": (1, 3),
    "polish": (0, 1, 4),
    "alpha": (0.0, 1e-12, 1e-6, 1e-3, 1.0, 100.0, "C=10", "C=0.001"),
    "holdout": (0.0, 0.01, 0.2, 0.5, 0.9),
    "seed": (1, 12345),
    "local": ("grids(n_grids=16)", "grids(one_hot='none')", "cells(rows=64, overlap=0)", "cells(partitions=2)"),
    "max_model_size": (10**5, 10**9),
    "max_seconds": (1.0, 20.0),
    "loss": ("huber(0.5)", "epsilon_insensitive(0.01)", "quantile(0.9)"),
}
COMMAND_ONLY = ("holdout", "holdout_by", "dtype", "seed", "task", "categorical")
"""What the command takes and an estimator does not, or by another name."""
ESTIMATOR_ONLY = ("class_weight",)
OF_GAMMA = ("auto", "gaussian", "rbf", "laplacian")
NOWHERE = ("rounds", "date_format")
"""Set by neither, or by the columns of a table."""
# Sampling is that of maps; it is drawn so that a case keeps its other settings.
CHANCE = {"loss": 0.5, "kernel": 0.85, "n_components": 0.75, "features": 0.5, "solver": 0.4, "gamma": 0.4,
          "sampling": 0.0,
          "calibration": 0.1, "class_weight": 0.08, "positive": 0.08, "holdout": 0.2, "patience": 0.1}  # fmt: skip
OTHERWISE = 0.2
COHERENT = 0.85  # share of the cases whose loss fits the task and whose solver fits the loss
PARAMETERS = tuple(name for name in {**CHOICES, **NUMBERS} if name not in NOWHERE)


def kernel(rng: random.Random, nonnegative: bool) -> str:
    """The text of a kernel; one in four is a sum or a product of two."""
    pool = [*PLAIN, *OPEN, *(NONNEGATIVE if nonnegative or rng.random() < 0.1 else []), rng.choice(NARROW)]
    first = rng.choice(pool)
    if rng.random() < 0.75 or first == "auto":
        return first
    second = rng.choice([text for text in pool if text != "auto"])
    factor = rng.choice(("", "", "0.01 * ", "7 * "))
    return f"{factor}({first}) {rng.choice('+*')} ({second})"


def settings(rng: random.Random, regresses: bool, nonnegative: bool, labels: list[Any]) -> dict[str, Any]:
    """Values of some parameters; the others stay what they are by default."""
    found: dict[str, Any] = {}
    coherent = rng.random() < COHERENT
    for name in PARAMETERS:
        # Always drawn, so that the chance of one parameter changes no other.
        value = rng.choice([*CHOICES.get(name, ()), *NUMBERS.get(name, ())])
        if rng.random() < CHANCE.get(name, OTHERWISE):
            found[name] = value
    text = kernel(rng, nonnegative)
    if rng.random() < CHANCE["kernel"]:
        found["kernel"] = text
    label = rng.choice(labels)
    if rng.random() < CHANCE["positive"]:
        found["positive"] = label
    return _coherent(rng, found, regresses) if coherent else found


def _coherent(rng: random.Random, found: dict[str, Any], regresses: bool) -> dict[str, Any]:
    """The same without the contradictions that every recipe is refused for."""
    loss_of = {name: loss for name, loss in LOSSES.items() if (loss.regresses if regresses else loss.classifies)}
    if regresses:
        for name in ("class_weight", "positive", "calibration"):
            found.pop(name, None)
        found["task"] = "regress"
    elif found.get("task") == "regress":
        found["task"] = "classify"
    if str(found.get("loss", "squared")).partition("(")[0] not in loss_of:
        found["loss"] = rng.choice(list(loss_of))
    loss = LOSSES[str(found.get("loss", "squared" if regresses else "squared_hinge")).partition("(")[0]]
    if found.get("solver") in ("normal", "pcg"):
        found["loss"] = "squared"
        found.setdefault("task", "classify")
    elif found.get("solver") in ("lbfgs", "exact") and not loss.smooth:
        found.pop("solver")
    if found.get("polish") and ("solver" in found or not loss.smooth):
        found.pop("polish")
    if found.get("solver") == "exact":
        for name in ("features", "n_components", "sampling", "landmarks"):
            found.pop(name, None)
    if found.get("calibration") and (found.get("holdout") == 0 or found.get("loss") == "softmax"):
        found.pop("calibration")
    if found.get("landmarks", "uniform") != "uniform":
        found["features"] = "nystrom"
    if found.get("kernel", "auto").lower() not in OF_GAMMA:
        found.pop("gamma", None)
    if found.get("gamma") in GAMMA_WORDS and found.get("kernel", "auto") == "auto":
        found.pop("gamma")
    return found
