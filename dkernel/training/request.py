"""A fit before anything is read: its source, recipe, plan and names."""

import hashlib
from dataclasses import dataclass, replace
from typing import Any

from dkernel.data.block import Block
from dkernel.data.source import Source
from dkernel.execution.base import Executor
from dkernel.features import Drawing, by_landmarks, features_of_sparse, resolve_features
from dkernel.linear.solvers.catalogue import SOLVERS, SolverEntry
from dkernel.numerics.rows import array_digest
from dkernel.persistence.checkpoint import run_of
from dkernel.planning.memory_plan import Plan
from dkernel.planning.plan_checks import check_memory, check_model, check_seconds
from dkernel.problem.sizes import Sizes
from dkernel.recipe import Recipe
from dkernel.selection.candidates import SelectedModel
from dkernel.selection.landmark_selection import given_landmarks
from dkernel.streaming.read_groups import join_units


@dataclass(frozen=True, eq=False)
class FitRequest:
    """Data and settings of a fit, as they were asked for.

    Parameters
    ----------
    recipe : of the user
    sizes : before the sample has said how many components are enough
    landmarks : an array of them, None where a rule chooses them
    chosen : kernel and scaling that a search has settled, in place of a choice on the sample
    validation : rows to judge by, in place of a holdout
    features : the word of FEATURES that recipe.features stands for here
    key : of all tasks
    identity : what decides the result, for a checkpoint
    """

    source: Source
    recipe: Recipe
    plan: Plan
    sizes: Sizes
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
    ) -> "FitRequest":
        """The request; one that cannot be met is refused."""
        recipe = recipe if validation is None else recipe.replace(holdout=0.0)
        source = join_units(source)
        recipe, landmarks = given_landmarks(recipe.for_columns(source.columns), landmarks, source)
        plan = Plan.of(source, recipe, executor)
        check_memory(plan, lambda columns: Plan.of(source, recipe.replace(n_components=columns), executor))
        check_seconds(plan, recipe.max_seconds)
        check_model(plan, recipe.max_model_size)
        digests = ("" if landmarks is None else array_digest(landmarks)) + digest_of_rows(validation)
        key = hashlib.sha256(f"{source.token}/{recipe.digest}{digests}".encode()).hexdigest()[:16]
        sizes = Sizes.of(source.n_counted, source.n_terms, recipe)
        return cls(
            source=source,
            recipe=recipe,
            plan=plan,
            sizes=sizes,
            features=_features(source, recipe, sizes, landmarks),
            key=f"dkernel-{key}",
            identity=run_of(source, recipe, digests),
            landmarks=landmarks,
            chosen=chosen,
            validation=validation,
        )

    def of_way(self, recipe: Recipe) -> "FitRequest":
        """The request of one of the ways to fit the machine, with a recipe of its own."""
        sizes = Sizes.of(self.source.n_counted, self.source.n_terms, recipe)
        features = _features(self.source, recipe, sizes, self.landmarks)
        return replace(self, recipe=recipe, sizes=sizes, features=features)

    @property
    def units(self) -> list[tuple[int, ...]]:
        """Rows of the chunks of each unit."""
        return [unit.rows for unit in self.source.units]

    @property
    def solver(self) -> SolverEntry:
        """The entry of the recipe's solver in the catalogue."""
        return SOLVERS[self.recipe.solver]

    def features_of(self, chosen: SelectedModel) -> str:
        """The word of FEATURES of the map: with a loss of all classes at once they are the features themselves."""
        return self.features if chosen.loss is None else "exact"

    def drawing(self, features: str) -> Drawing | None:
        """Drawing of the map of these features; None for landmarks."""
        if by_landmarks(features):
            return None
        recipe, source = self.recipe, self.source
        return Drawing(features, source.n_in, recipe.sampling, recipe.form, recipe.seed, source.sparse)

    def local_stages(self, executor: Executor, outputs: int) -> tuple[str, ...]:
        """Plan again, once the number of classes is known, and return the local stages that fit into memory.

        One that was asked for by name and does not fit is refused.
        """
        if not self.plan.local or outputs <= self.plan.outputs:
            return self.plan.local
        plan = Plan.of(self.source, self.recipe, executor, outputs)
        check_memory(plan, lambda n: Plan.of(self.source, self.recipe.replace(n_components=n), executor, outputs))
        check_model(plan, self.recipe.max_model_size)
        return plan.local


def digest_of_rows(rows: Block | None) -> str:
    """A name of the content of some rows; empty for none."""
    beside = [] if rows is None else [rows.X, rows.y, rows.weight]
    return "".join(array_digest(values) for values in beside if values is not None)


def _features(source: Source, recipe: Recipe, sizes: Sizes, landmarks: Any) -> str:
    """Kind of the map. Given landmarks, a rule for them, or a rank mean Nystrom; a kernel without it is refused."""
    if recipe.features == "auto" and (landmarks is not None or recipe.landmarks != "uniform" or recipe.rank):
        return "nystrom"
    kernel = recipe.kernels[0].bind_columns(source.columns)
    if source.sparse:
        return features_of_sparse(kernel, sizes.components, recipe.features)
    return resolve_features(kernel, sizes.p, sizes.components, recipe.features, recipe.sampling)
