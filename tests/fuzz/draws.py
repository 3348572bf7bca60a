"""Random settings: a kernel of the catalogue, sums and products of them, and words and numbers of every parameter."""

from operator import itemgetter
from typing import Any

from hypothesis import strategies as st

from dkernel.kernels import GAMMA_WORDS
from dkernel.losses.losses import LOSSES
from dkernel.model.parameters import PARAMETERS as TABLE
from tests.kernels.catalogue import CATALOGUE

NAMED = [repr(member.kernel) for member in CATALOGUE]
OPEN = ["auto", "gaussian", "laplacian", "rbf", "cauchy", "exponential", "matern", "rationalquadratic", "productcauchy",
        "polynomial", "linear", "arccosine", "additivechi2", 'Gaussian(gamma="auto") + Linear()',
        '0.5 * Laplacian(gamma="median") + Gaussian(gamma="auto")', "Gaussian(gamma='scale') * Polynomial(degree=2)",
        "Normalized(Polynomial(degree=4)) + Linear()", "Polynomial(degree=12)", "Linear().on([0])"]  # fmt: skip
_ONE = st.sampled_from([*OPEN[1:], *NAMED])
_SUMS = st.builds("{}({}) {} ({})".format, st.sampled_from(["", "0.01 * ", "7 * "]), _ONE, st.sampled_from("+*"), _ONE)
KERNELS = st.sampled_from([*OPEN, *NAMED]) | _SUMS

CHOICES = {name: p.words for name, p in TABLE.items() if p.words}
# What each parameter may be beside the words of the recipe.
NUMBERS: dict[str, tuple[Any, ...]] = {
    "gamma": (1e-6, 0.001, 0.1, 1.0, 30.0, 1e4),
    "n_components": (1, 2, 7, 16, 32, 64, 100, 200, 300),
    "passes": (1, 2, 3, 7),
    "polish": (0, 1, 4),
    "alpha": (0.0, 1e-12, 1e-6, 1e-3, 1.0, 100.0, "C=10", "C=0.001"),
    "holdout": (0.0, 0.01, 0.2, 0.5, 0.9),
    "seed": (1, 12345),
    "local": ("grids(n_grids=16)", "grids(one_hot='none')", "cells(rows=64, overlap=0)", "cells(partitions=2)"),
    "max_model_size": (10**5, 10**9),
    "max_seconds": (1.0, 20.0),
    "loss": ("huber(0.5)", "epsilon_insensitive(0.01)", "quantile(0.9)"),
}
OF_GAMMA = ("auto", "gaussian", "rbf", "laplacian")
NOWHERE = ("rounds", "formats", "sampling")
"""Set by neither, by the columns of a table, or of maps."""
PARAMETERS = tuple(name for name in {**CHOICES, **NUMBERS} if name not in NOWHERE)
VALUES = {name: [*CHOICES.get(name, ()), *NUMBERS.get(name, ())] for name in PARAMETERS}
OFTEN = ("loss", "n_components", "features", "solver", "gamma")  # each set by half of the cases
_OTHERS = [(name, value) for name in PARAMETERS if name not in OFTEN for value in VALUES[name]]


def settings(regresses: bool) -> st.SearchStrategy[dict[str, Any]]:
    """Values of some parameters, mostly without contradictions; the others stay what they are by default."""
    often = {"kernel": KERNELS} | {name: st.sampled_from(VALUES[name]) for name in OFTEN}
    others = st.lists(st.sampled_from(_OTHERS), max_size=6, unique_by=itemgetter(0)).map(dict)
    drawn = st.builds(dict.__or__, others, st.fixed_dictionaries({}, optional=often))
    return drawn.map(lambda found: _coherent(found, regresses)) | drawn


def _coherent(found: dict[str, Any], regresses: bool) -> dict[str, Any]:
    """The same without the contradictions that every recipe is refused for."""
    unfit = ["class_weight", "calibration"] if regresses else []
    usual = LOSSES["squared" if regresses else "squared_hinge"]  # also that of "auto"
    loss = LOSSES.get(str(found.get("loss")).partition("(")[0], usual)
    if not (loss.regresses if regresses else loss.classifies):
        unfit.append("loss")
        loss = usual
    if regresses or found.get("task") == "regress":
        found = {**found, "task": "regress" if regresses else "classify"}
    if found.get("solver") in ("normal", "pcg"):
        found = {"task": "classify", **found, "loss": "squared"}
    elif not loss.smooth and found.get("solver") in ("lbfgs", "exact"):
        unfit.append("solver")
    if not loss.smooth or "solver" in found:
        unfit.append("polish")
    if found.get("solver") == "exact":
        unfit += ["features", "n_components", "landmarks"]
    if found.get("holdout") == 0:
        unfit.append("calibration")
    if found.get("landmarks", "uniform") != "uniform":
        found = {**found, "features": "nystrom"}
    kernel = found.get("kernel", "auto").lower()
    if kernel not in OF_GAMMA or (kernel == "auto" and found.get("gamma") in GAMMA_WORDS):
        unfit.append("gamma")
    return {name: value for name, value in found.items() if name not in unfit}
