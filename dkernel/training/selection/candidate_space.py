"""The candidates of a choice: every kernel, scaling and gamma that a recipe leaves open."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from dkernel.data.block import Block
from dkernel.data.encoding import Encoding
from dkernel.features import Drawing, Scaling
from dkernel.features.scaling import SPARSE
from dkernel.kernels import Kernel, Laplacian, Linear
from dkernel.model.recipe import Recipe
from dkernel.numerics.layout import Layout
from dkernel.numerics.object_values import number_columns
from dkernel.numerics.rows import n_terms
from dkernel.streaming.survey import SurveyResult
from dkernel.training.selection.bandwidth import gamma_rule, requested_rule
from dkernel.training.selection.candidates import Candidate
from dkernel.training.selection.metric_learning import learnable_metric

GAMMA_FACTORS = tuple(2.0**k for k in range(-2, 7))
# By the median rule the L1 kernel of a typical pair is exp(-1), which is too steep for most data.
LAPLACIAN_GRID = tuple(2.0**k for k in range(-5, 3))
MOST_L1 = 32  # features; with more of them an L1 distance takes several times as long as a product
SCALED_ROWS = 1000  # rows whose distances give the median gamma


def usable_kernels(recipe: Recipe, p: int, drawing: Drawing | None = None) -> tuple[Kernel, ...]:
    """Return the kernels of a recipe that a choice compares on rows of p columns.

    Parameters
    ----------
    drawing : drawing of the components, None for landmarks; kernels that it cannot draw are left out if others remain
    """
    kernels = recipe.kernels
    if drawing is not None and len(kernels) > 1:
        kernels = tuple(kernel for kernel in kernels if drawing.suits(kernel)) or kernels[:1]
    # A term of an L1 distance costs as much as thirty of a product: for many features a recipe has to name the kernel.
    several = len(kernels) > 1 and p > MOST_L1
    return tuple(kernel for kernel in kernels if not (several and isinstance(kernel, Laplacian)))


def gamma_is_open(recipe: Recipe, kernel: Kernel) -> bool:
    """True if the choice has to find a gamma of the kernel."""
    return "auto" in {requested_rule(recipe, word) for word in kernel.placeholders}


class CandidateSpace:
    """The candidates that a recipe leaves open on the rows of a reservoir.

    Parameters
    ----------
    rows : rows of the reservoir, in the order of hashes
    drawing : drawing of the fit's components, None for landmarks
    encoding : encoding of the columns of a table; a category is one column, and keeps its unit
    """

    def __init__(
        self, recipe: Recipe, survey: SurveyResult, rows: Block, drawing: Drawing | None, encoding: Encoding | None
    ) -> None:
        self.recipe, self.survey, self.rows = recipe, survey, rows
        # Few one-hot inputs of a row are not 0, so the columns that they encode are counted.
        columns = rows.X.shape[1] if encoding is None else len(encoding.columns)
        self.families = list(usable_kernels(recipe, columns, drawing))
        self.unscaled = None if encoding is None else encoding.unscaled
        self.layout = Layout.of(rows.X)
        self.p = n_terms(rows.X)
        self.gammas: dict[Scaling, Callable[..., float]] = {}

    def candidates(self) -> list[Candidate]:
        """Make a candidate for every family, scale and gamma that is open."""
        kinds = self._scale_kinds()
        alike = self.scaling(kinds[0]).factor / self.scaling(kinds[-1]).factor
        if self.recipe.constant_map or (alike.min() >= 0.999 and alike.max() <= 1.001):  # the data are scaled already
            kinds = kinds[:1]
        return [
            candidate
            for family in self.families
            for kind in kinds
            for candidate in self._bind(family, self.scaling(kind, family.shift_invariant), self.grid(family))
        ]

    def _scale_kinds(self) -> tuple[str, ...]:
        if self.recipe.scale != "auto":
            return (self.recipe.scale,)
        if self.layout.sparse:
            return SPARSE
        if self.layout.objects:  # columns that have a kernel each share no unit
            return ("standard",) if number_columns(self.rows.X) else ("none",)
        return ("standard", "global")

    def grid(self, family: Kernel) -> tuple[float, ...]:
        """Return the first multiples of the median gamma to try."""
        if not gamma_is_open(self.recipe, family):
            return (1.0,)
        return LAPLACIAN_GRID if isinstance(family, Laplacian) else GAMMA_FACTORS

    def _bind(self, family: Kernel, scaling: Scaling, factors: Sequence[float], **others: Any) -> list[Candidate]:
        # All candidates of a scaling share a median, which takes longest for wide rows.
        if scaling not in self.gammas:
            self.gammas[scaling] = gamma_rule(self.recipe, self.survey, scaling, self.rows.X[:SCALED_ROWS])
        rule = self.gammas[scaling]
        if len(self.grid(family)) == 1:
            factors = (1.0,)
        return [Candidate(family, family.bind(partial(rule, f)), scaling, f, **others) for f in factors]

    def at_multiples(self, candidate: Candidate, multiples: Sequence[float]) -> list[Candidate]:
        """Return the candidate with these multiples of its gamma."""
        factors = [candidate.factor * multiple for multiple in multiples]
        return self._bind(
            candidate.family, candidate.scaling, factors, metric=candidate.metric, weights=candidate.weights
        )

    def linear(self, kind: str) -> Candidate:
        """Return the linear kernel with this scale; its components are the features themselves."""
        return self._bind(Linear(), self.scaling(kind), (1.0,), plain=True)[0]

    @property
    def linear_is_open(self) -> bool:
        """True if the recipe and the data allow the linear kernel, which is 0 where no column varies."""
        is_open = self.recipe.kernel == self.recipe.gamma == "auto" and self.recipe.metric in ("auto", "identity")
        return is_open and self.layout.numeric and bool(self.survey.moments.variance.any())

    def choose_metric(self, candidate: Candidate) -> str:
        """Return the metric to learn for the kernel of a candidate, "identity" for none."""
        if self.recipe.metric != "auto":
            return self.recipe.metric
        is_open = len(self.grid(candidate.family)) > 1 and self.layout.numeric
        return learnable_metric(candidate.family, self.p) if is_open else "identity"

    def scaling(self, kind: str, free: bool = False) -> Scaling:
        """Return the scaling of a kind, without a metric; `free` if the kernel does not depend on a shift."""
        rounding = 1e-14 if self.rows.X.dtype == np.float64 else 1e-7
        return self.survey.scaling(kind, free=free, rounding=rounding, unscaled=self.unscaled)
