"""The request of a fit: its source, recipe, plan and keys; a recipe that does not suit the data is refused."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dkernel.data.block import Block
from dkernel.data.object_columns import check_gamma, check_source
from dkernel.data.source import Source
from dkernel.errors import DataError, RecipeError
from dkernel.features import features_of_sparse, resolve_features
from dkernel.losses.losses import parse_loss
from dkernel.model.recipe import Recipe
from dkernel.model.solver_table import SOLVERS
from dkernel.numerics.rows import array_digest
from dkernel.solvers.exact import deduplicate, is_few
from dkernel.solvers.sizes import Sizes
from dkernel.streaming.cost import Cost
from dkernel.streaming.execution.base import Executor
from dkernel.streaming.read_groups import join_units
from dkernel.streaming.row_weights import count_weighted
from dkernel.streaming.schedule import bundle_size, bundles
from dkernel.training.checkpoint import describe_run
from dkernel.training.local_stages import LOCAL_STAGES, tries_local
from dkernel.training.planning.memory_plan import Plan
from dkernel.training.selection.candidates import SelectedModel
from dkernel.training.selection.landmark_selection import given_landmarks
from dkernel.training.selection.metric_learning import check_metric

# Values of these parameters that allow a solver which holds all rows in memory and keeps no holdout.
OF_ANY_SOLVER: Mapping[str, tuple[Any, ...]] = {
    "passes": ("auto", 1),
    "polish": ("auto", 0),
    "rounds": ("auto",),
    "holdout": (0, Recipe.holdout),
    "local": ("auto", "none"),
}


@dataclass(frozen=True, eq=False)
class Ask:
    """Data and settings of a fit, as they were asked for.

    Parameters
    ----------
    recipe : recipe of the user
    features : word of FEATURES that recipe.features resolves to
    landmarks : array of landmarks, None if a rule chooses them
    chosen : kernel and scaling that a search has chosen, instead of a choice on the sample
    validation : validation rows, instead of a holdout
    key : key of all tasks
    identity : everything that decides the result, for a checkpoint
    """

    source: Source
    recipe: Recipe
    plan: Plan
    features: str
    key: str
    identity: dict[str, Any]
    landmarks: Any = None
    chosen: SelectedModel | None = None
    validation: Block | None = None

    @classmethod
    def of(
        cls,
        source: Source,
        recipe: Recipe,
        executor: Executor,
        landmarks: Any = None,
        chosen: SelectedModel | None = None,
        validation: Block | None = None,
    ) -> "Ask":
        """Make the request of a fit, and refuse a fit that is not possible."""
        recipe = recipe if validation is None else recipe.replace(holdout=0.0)
        source = replace(join_units(source), judged=0 if validation is None else len(validation.X))
        recipe, landmarks = given_landmarks(recipe.for_columns(source.columns), landmarks, source)
        plan = plan_fit(source, recipe, executor)
        plan.check()
        digests = ("" if landmarks is None else array_digest(landmarks)) + digest_of_rows(validation)
        key = hashlib.sha256(f"{source.token}/{recipe.digest}{digests}".encode()).hexdigest()[:16]
        return cls(
            source=source,
            recipe=recipe,
            plan=plan,
            features=resolve_map(source, recipe, plan.sizes, landmarks),
            key=f"dkernel-{key}",
            identity=describe_run(source, recipe, digests),
            landmarks=landmarks,
            chosen=chosen,
            validation=validation,
        )

    @property
    def units(self) -> list[tuple[int, ...]]:
        """Numbers of rows of the chunks of each unit."""
        return [unit.rows for unit in self.source.units]

    @property
    def mixed(self) -> list[list[list[int]]]:
        """Units that the rounds of each pass mix with each other; empty for a solver without rounds."""
        bundle, sizes = bundle_size(self.units, self.source.row_bytes), self.plan.sizes
        passes = range(sizes.passes if SOLVERS[self.recipe.solver].in_rounds else 0)
        return [bundles(self.units, self.recipe.seed, epoch, bundle, sizes.rounds) for epoch in passes]

    def plan_local(self, executor: Executor, outputs: int) -> Plan:
        """Plan again, once the number of classes is known, with the local stages that fit into memory.

        A local stage that was asked for by name and does not fit is refused.
        """
        if not self.plan.local or outputs <= self.plan.outputs:
            return self.plan
        plan = plan_fit(self.source, self.recipe, executor, outputs)
        plan.check_memory()
        plan.check_model()
        return plan


def plan_fit(source: Source, recipe: Recipe, executor: Executor, outputs: int = 1, after: Sequence[Cost] = ()) -> Plan:
    """Plan a fit on the workers that are there, and leave out those that are too small for it."""
    found = Plan.of(source, recipe, executor.describe(), outputs, after)
    if not found.fits_workers:  # workers may have joined meanwhile
        found = Plan.of(source, recipe, executor.describe(), outputs, after)
    executor.leave_out(found.left_out)
    return found


def with_solver(recipe: Recipe, source: Source, validation: Block | None = None) -> Recipe:
    """Return the recipe with the solver for "auto": few rows are solved exactly, as fast and with a smaller error.

    The errors of "psgd" and "exact" are 2.0 and 0.4 % on digits, 11.0 and 8.0 % on banana, 14.1 and 14.0 % on 2,000
    rows of magic. A recipe that asks for passes or a holdout gets them, and so do rows from which local stages gain
    more than an exact solution: phoneme 10.1 % instead of 12.5, churn 4.3 instead of 5.5, sml .032 deviations instead
    of .051. Fewer components than features cannot learn a linear function: with 3,000 rows of 2,000 features the exact
    solver has an error of .16 deviations, and passes have .75.
    """
    if recipe.solver != "auto":
        return recipe
    asks = validation is not None or any(getattr(recipe, name) not in words for name, words in OF_ANY_SOLVER.items())
    passes = recipe.replace(solver="psgd")
    if asks or not is_few(source) or not SOLVERS["exact"].takes(parse_loss(recipe.loss)):
        return passes
    sizes = Sizes.of(source.n_counted, source.n_in, passes)
    races = sizes.p <= sizes.components and tries_local(passes, source, sizes.holdout)
    return passes if races else recipe.replace(solver="exact")


def merge_copies(source: Source, recipe: Recipe, executor: Executor) -> Source:
    """Return the source; if its rows are few and the solver of the recipe merges equal rows, they are merged."""
    source = count_weighted(source, executor)
    merges = SOLVERS[recipe.solver].merges_duplicates
    return deduplicate(source, recipe, executor) if merges and is_few(source) else source


def settle_source(
    source: Source, recipe: Recipe, executor: Executor, chosen: SelectedModel | None, validation: Block | None
) -> tuple[Source, Recipe]:
    """Return the source to learn from and the recipe with its solver; refuse a recipe that does not suit the data."""
    source = count_weighted(source, executor)
    if source.n_counted < 2:
        raise DataError(f"The data have {source.n_counted} row(s) that count; a model needs at least two.")
    check_together(source, recipe, chosen)
    merged = merge_copies(source, recipe, executor)
    settled = with_solver(recipe, merged, validation)
    if recipe.calibrates and not (recipe.holdout or validation is not None or SOLVERS[settled.solver].in_memory):
        raise RecipeError(
            f"calibration={recipe.calibration!r} is fitted on the rows of the holdout, and holdout=0 keeps none. Use "
            "holdout=0.05."
        )
    if not SOLVERS[settled.solver].in_memory:
        return merged, settled
    if validation is not None:
        raise RecipeError(
            f"solver={recipe.solver!r} judges alpha on its own rows. Use solver='psgd' with a validation set."
        )
    return merged if is_few(source) else deduplicate(source, recipe, executor), settled


def check_together(source: Source, recipe: Recipe, chosen: SelectedModel | None = None) -> None:
    """Refuse a recipe that does not suit the columns of a source; nothing is read."""
    kernel = recipe.for_columns(source.columns).kernels[0]
    check_source(kernel, source)
    if source.objects:
        check_gamma([kernel], "auto" if chosen else recipe.gamma)
    check_metric(recipe.metric, kernel, source.layout)
    if recipe.names_local:
        LOCAL_STAGES[recipe.local_stage].check(recipe, source)


def digest_of_rows(rows: Block | None) -> str:
    """Return a digest of the content of rows; an empty text if there are no rows."""
    beside = [] if rows is None else [rows.X, rows.y, rows.weight]
    return "".join(array_digest(values) for values in beside if values is not None)


def resolve_map(source: Source, recipe: Recipe, sizes: Sizes, landmarks: Any) -> str:
    """Return the kind of the map: "nystrom" for landmarks that are given or by a rule; refuse a kernel without it."""
    if recipe.features == "auto" and (landmarks is not None or recipe.landmarks != "uniform"):
        return "nystrom"
    kernel = recipe.kernels[0].bind_columns(source.columns)
    if source.sparse:
        return features_of_sparse(kernel, sizes.components, recipe.features)
    return resolve_features(kernel, sizes.p, sizes.components, recipe.features, recipe.sampling)
