"""The work of a fit, predicted from sizes before it runs."""

from collections.abc import Mapping
from dataclasses import dataclass

from dkernel.data.source import Source
from dkernel.features import by_landmarks
from dkernel.features.base import MOST_DENSE
from dkernel.linear.solvers.catalogue import SOLVERS
from dkernel.problem.budget import choice_flops, core_seconds
from dkernel.problem.sizes import LEAST_COMPONENTS, Sizes
from dkernel.recipe import Recipe
from dkernel.selection.predicted_work import choice_work
from dkernel.solving.driver import solver_class
from dkernel.solving.sketch import sketch_flops
from dkernel.training.local_stage import LOCAL_STAGES, local_kinds, worth_trying

SURVEY = 400.0  # flops of a value: moments, quantiles of the reservoir, checks, digests


@dataclass(frozen=True)
class Work:
    """Predicted flops of the parts of a fit.

    Parameters
    ----------
    sizes : of the fit
    passes : of all rows
    turn : of a pass
    local : of each local stage that is tried
    """

    sizes: Sizes
    passes: int
    survey: float
    choice: float
    setup: float
    turn: float
    local: Mapping[str, float]

    @classmethod
    def of(cls, source: Source, recipe: Recipe, sizes: Sizes, outputs: int) -> "Work":
        """The work of a source."""
        passes, turn, setup = global_work(sizes, recipe, outputs)
        work = {"global": setup + passes * turn, "survey": SURVEY * source.n_rows * sizes.p}
        drawn, budget = not by_landmarks(recipe.features, auto=True), choice_flops(recipe, work["global"])
        rows = sizes.reservoir - sizes.holdout
        work["choice"] = choice_work(recipe, sizes.p, rows, sizes.components, drawn, budget)
        kinds = local_kinds(recipe, source, sizes, work, outputs)
        local = {kind: LOCAL_STAGES[kind].cost(sizes.n, sizes.p, recipe, outputs).flops for kind in kinds}
        return cls(sizes, passes, work["survey"], work["choice"], setup, turn, local)

    def with_fewest(self, recipe: Recipe, outputs: int) -> "Work":
        """The work if the sample finds the fewest components to be enough; the same where it may not."""
        if not may_shrink(recipe, self.sizes):
            return self
        sizes = Sizes.of(self.sizes.n, self.sizes.p, recipe.replace(n_components=LEAST_COMPONENTS))
        passes, turn, setup = global_work(sizes, recipe, outputs)
        kinds = worth_trying(tuple(self.local), enough=True) if recipe.local == "auto" else tuple(self.local)
        local = {kind: self.local[kind] for kind in kinds}
        return Work(sizes, passes, self.survey, self.choice, setup, turn, local)

    @property
    def seconds(self) -> float:
        """Seconds of one core."""
        work = {"survey": self.survey, "choice": self.choice, "global": self.setup + self.passes * self.turn}
        return core_seconds({**work, **self.local})


def may_shrink(recipe: Recipe, sizes: Sizes) -> bool:
    """True if the sample may find fewer components to be enough."""
    is_open = recipe.n_components == "auto" and recipe.landmarks == "uniform" and sizes.components > LEAST_COMPONENTS
    return is_open and by_landmarks(recipe.features, auto=True) and not SOLVERS[recipe.solver].in_memory


def global_work(sizes: Sizes, recipe: Recipe, outputs: int) -> tuple[int, float, float]:
    """Passes, the flops of one, and those of the setup."""
    p, D = sizes.p, sizes.components
    solver = solver_class(recipe.solver)
    if not SOLVERS[recipe.solver].prepared:
        return solver.readings(sizes), solver.flops(sizes, outputs), 0.0
    wide = D > MOST_DENSE and recipe.rank is None
    products = sketch_flops(D, p) if wide else float(sizes.sample) * D * D + 2.0 * D**3
    picking = float(sizes.candidates) * D * (D + 2 * p + 20) if sizes.candidates > D else 0.0
    setup = products + float(sizes.sample) * D * (2 * p + 20) + picking
    return solver.readings(sizes), solver.flops(sizes, outputs), setup
