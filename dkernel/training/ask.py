"""A fit before anything is learned: its source, recipe, plan and names; what does not go together is refused."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
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
from dkernel.solvers.reservoir_split import count_weighted
from dkernel.solvers.sizes import Sizes
from dkernel.streaming.execution.base import Executor
from dkernel.streaming.read_groups import join_units
from dkernel.streaming.schedule import bundle_size, bundles
from dkernel.training.checkpoint import describe_run
from dkernel.training.local_stages import LOCAL_STAGES, tries_local
from dkernel.training.planning.memory_plan import Plan
from dkernel.training.selection.candidates import SelectedModel
from dkernel.training.selection.landmark_selection import given_landmarks
from dkernel.training.selection.metric_learning import check_metric

# Values of these parameters with which all rows may be held in memory, none of them held out.
OF_ANY_SOLVER: Mapping[str, tuple[Any, ...]] = {
    "passes": ("auto", 1),
    "polish": ("auto", 0),
    "rounds": ("auto",),
    "patience": (0,),
    "holdout": (0, Recipe.holdout),
    "local": ("auto", "none"),
}


@dataclass(frozen=True, eq=False)
class Ask:
    """Data and settings of a fit, as they were asked for.

    Parameters
    ----------
    recipe : of the user
    features : the word of FEATURES that recipe.features stands for here
    landmarks : an array of them, None where a rule chooses them
    chosen : kernel and scaling that a search has settled, in place of a choice on the sample
    validation : rows to judge by, in place of a holdout
    key : of all tasks
    identity : what decides the result, for a checkpoint
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
        """The fit that is asked for; one that cannot be is refused."""
        recipe = recipe if validation is None else recipe.replace(holdout=0.0)
        source = join_units(source)
        recipe, landmarks = given_landmarks(recipe.for_columns(source.columns), landmarks, source)
        plan = Plan.of(source, recipe, executor)
        plan.check_memory(executor)
        plan.check_seconds()
        plan.check_model()
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
        """Rows of the chunks of each unit."""
        return [unit.rows for unit in self.source.units]

    @property
    def mixed(self) -> list[list[list[int]]]:
        """Of each pass the units that its rounds mix with each other; none of a solver without rounds."""
        bundle = bundle_size(self.units, self.source.row_bytes)
        passes = range(self.plan.sizes.passes if SOLVERS[self.recipe.solver].in_rounds else 0)
        return [bundles(self.units, self.recipe.seed, epoch, bundle) for epoch in passes]

    def local_stages(self, executor: Executor, outputs: int) -> tuple[str, ...]:
        """Plan again, once the number of classes is known, and return the local stages that fit into memory.

        One that was asked for by name and does not fit is refused.
        """
        if not self.plan.local or outputs <= self.plan.outputs:
            return self.plan.local
        plan = Plan.of(self.source, self.recipe, executor, outputs)
        plan.check_memory(executor)
        plan.check_model()
        return plan.local


def with_solver(recipe: Recipe, source: Source, validation: Block | None = None) -> Recipe:
    """The recipe with the solver that "auto" stands for: few rows are solved exactly, which is as quick and errs less.

    Errors of "psgd" and "exact": digits 2.0, 0.4 %, banana 11.0, 8.0 %, 2,000 rows of magic 14.1, 14.0 %. What asks for
    passes or for held-out rows gets them, and so do the rows from which local stages gain more than an exact solution:
    phoneme 10.1 % beside 12.5, churn 4.3 beside 5.5, sml .032 deviations beside .051. Fewer components than features
    learn no line: 3,000 rows of 2,000 features .16 deviations exactly, .75 in passes.
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
    """The source; of few rows each different one once, if the solver of the recipe merges equal rows."""
    source = count_weighted(source, executor)
    merges = SOLVERS[recipe.solver].merges_duplicates
    return deduplicate(source, recipe, executor) if merges and is_few(source) else source


def settle_source(
    source: Source, recipe: Recipe, executor: Executor, chosen: SelectedModel | None, validation: Block | None
) -> tuple[Source, Recipe]:
    """The source to learn from, and the recipe with its solver; refuse data and a recipe that do not go together."""
    source = count_weighted(source, executor)
    if source.n_counted < 2:
        raise DataError(f"The data have {source.n_counted} row(s) that count; a model needs at least two.")
    check_together(source, recipe, chosen)
    merged = merge_copies(source, recipe, executor)
    settled = with_solver(recipe, merged, validation)
    if recipe.curve and not (recipe.holdout or validation is not None or SOLVERS[settled.solver].in_memory):
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
    """Refuse a recipe that does not go with the columns of a source; nothing is read."""
    kernel = recipe.for_columns(source.columns).kernels[0]
    check_source(kernel, source)
    if source.objects:
        check_gamma([kernel], "auto" if chosen else recipe.gamma)
    check_metric(recipe.metric, kernel, source.layout)
    if recipe.names_local:
        LOCAL_STAGES[recipe.local_stage].check(recipe, source)


def digest_of_rows(rows: Block | None) -> str:
    """A name of the content of some rows; empty for none."""
    beside = [] if rows is None else [rows.X, rows.y, rows.weight]
    return "".join(array_digest(values) for values in beside if values is not None)


def resolve_map(source: Source, recipe: Recipe, sizes: Sizes, landmarks: Any) -> str:
    """The kind of the map: Nystrom for given landmarks, or a rule for them; a kernel without it is refused."""
    if recipe.features == "auto" and (landmarks is not None or recipe.landmarks != "uniform"):
        return "nystrom"
    kernel = recipe.kernels[0].bind_columns(source.columns)
    if source.sparse:
        return features_of_sparse(kernel, sizes.components, recipe.features)
    return resolve_features(kernel, sizes.p, sizes.components, recipe.features, recipe.sampling)
