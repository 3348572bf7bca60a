"""A fit before anything is read: its source, recipe, sizes, plan and names."""

import hashlib
from dataclasses import dataclass, field, replace
from typing import Any

from dkernel.data.block import Block
from dkernel.data.scratch import Scratch
from dkernel.data.source import Source
from dkernel.execution.base import Executor
from dkernel.features import Drawing, by_landmarks, features_named, features_of_sparse
from dkernel.linear.solvers.catalogue import SOLVERS, SolverEntry
from dkernel.numerics.rows import array_digest
from dkernel.persistence.checkpoint import run_of
from dkernel.persistence.journal import Journal
from dkernel.problem.sizes import Sizes
from dkernel.recipe import Recipe
from dkernel.selection.candidates import SelectedModel
from dkernel.selection.landmark_selection import for_given
from dkernel.solving.driver import Callback
from dkernel.streaming.progress import Progress
from dkernel.training.memory_plan import Plan


@dataclass(frozen=True, eq=False)
class Job:
    """Data and settings that all stages of a fit share.

    Parameters
    ----------
    recipe : of the user, with the local stage that the plan has room for
    features : the word of FEATURES that recipe.features stands for here
    given : landmarks, None where a rule chooses them
    settled : kernel and scaling that a search has chosen
    validation : rows to judge by, in place of a holdout
    key : of all tasks
    identity : what decides the result, for a checkpoint
    chosen : what was left open, and what it became, in words; the stages write it as they go
    """

    source: Source
    recipe: Recipe
    executor: Executor
    progress: Progress
    plan: Plan
    sizes: Sizes
    features: str
    key: str
    identity: dict[str, Any]
    given: Any = None
    settled: SelectedModel | None = None
    validation: Block | None = None
    callback: Callback | None = None
    scratch: Scratch = field(default_factory=Scratch)
    journal: Journal = field(default_factory=Journal)
    chosen: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls, source: Source, recipe: Recipe, executor: Executor, progress: Progress,
        scratch: Scratch | str | None = None, landmarks: Any = None, settled: SelectedModel | None = None,
        validation: Block | None = None, callback: Callback | None = None,
    ) -> "Job":  # fmt: skip
        """The job; a job that cannot be done is refused."""
        recipe = recipe if validation is None else recipe.replace(holdout=0.0)
        recipe, given = for_given(recipe.for_columns(source.columns), landmarks, source)
        plan = Plan.of(source, recipe, executor)
        plan.check()
        plan.check_seconds(recipe.max_seconds)
        sizes = Sizes.of(source.n_counted, source.n_terms, recipe)
        plan.check_model(recipe.max_model_size)
        beside = [given] if validation is None else [given, validation.X, validation.y, validation.weight]
        digests = "".join(array_digest(Z) for Z in beside if Z is not None)
        key = hashlib.sha256(f"{source.token}/{recipe.digest}{digests}".encode()).hexdigest()[:16]
        return cls(
            source, recipe, executor, progress, plan, sizes,
            _features(source, recipe, sizes, given), f"dkernel-{key}", run_of(source, recipe, digests),
            given, settled, validation, callback, Scratch.of(scratch),
        )  # fmt: skip

    @property
    def units(self) -> list[tuple[int, ...]]:
        """Rows of the chunks of each unit."""
        return [unit.rows for unit in self.source.units]

    @property
    def solver(self) -> SolverEntry:
        """Properties of the solver."""
        return SOLVERS[self.recipe.solver]

    @property
    def drawing(self) -> Drawing | None:
        """Drawing of the map; None for landmarks."""
        recipe, sparse = self.recipe, self.source.sparse
        if by_landmarks(self.features):
            return None
        n_in = self.source.n_in if sparse else self.sizes.p
        return Drawing(self.features, n_in, recipe.sampling, recipe.form, recipe.seed, sparse)

    def for_outputs(self, outputs: int) -> "Job":
        """The job with the local stages that so many outputs can pay for: of classes the plan knew no number.

        One that was asked for by name and does not fit is refused.
        """
        if not self.plan.local or outputs <= self.plan.outputs:
            return self
        plan = Plan.of(self.source, self.recipe, self.executor, outputs)
        plan.check()
        plan.check_model(self.recipe.max_model_size)
        return replace(self, plan=replace(self.plan, local=plan.local))

    def note(self, name: str, text: str) -> None:
        """Store and report a choice."""
        self.chosen[name] = text
        self.progress.choice(name, text)


def _features(source: Source, recipe: Recipe, sizes: Sizes, given: Any) -> str:
    """Kind of the map. Given landmarks, a rule for them, or a rank mean Nystrom; a kernel without it is refused."""
    if recipe.features == "auto" and (given is not None or recipe.landmarks != "uniform" or recipe.rank):
        return "nystrom"
    kernel = recipe.kernels[0].bind_columns(source.columns)
    if source.sparse:
        return features_of_sparse(kernel, sizes.components, recipe.features)
    return features_named(kernel, sizes.p, sizes.components, recipe.features, recipe.sampling)
