"""Base class of the searches, which check all candidates of a grid first and keep a journal and a budget."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from dkernel.data.block import Block
from dkernel.data.object_columns import check_gamma
from dkernel.data.scratch import Scratch
from dkernel.data.source import Source
from dkernel.leaves.tuning.search_space import Budget, SearchCandidate, make_candidates, scale_gammas
from dkernel.losses.scoring import BY_LOSS
from dkernel.model.journal import Journal
from dkernel.model.recipe import Recipe
from dkernel.streaming.execution.base import Executor
from dkernel.streaming.progress import Progress
from dkernel.training.ask import Ask, digest_of_rows
from dkernel.training.checkpoint import describe_run
from dkernel.training.selection.candidates import SelectedModel


@dataclass(eq=False)
class ParameterSearch(ABC):
    """Base class of a search; it returns what the fit of the winner needs.

    Parameters
    ----------
    recipe : parameters that all candidates share
    grid : axis -> values
    validation : validation rows; None for rows of the data
    clock : function that returns seconds, for a budget of time
    """

    source: Source
    recipe: Recipe
    executor: Executor
    grid: Mapping[str, Sequence[Any]]
    budget: Budget
    progress: Progress
    scratch: Scratch
    validation: Block | None
    clock: Callable[[], float]
    journal: Journal = field(default_factory=Journal, init=False)

    fitted: ClassVar[bool]
    """Whether each candidate is fitted as without a search."""

    def __post_init__(self) -> None:
        self.began = self.clock()
        self._choices: dict[str, SelectedModel] = {}
        self.recipe, source = self.recipe.for_columns(self.source.columns), self.source
        self.candidates = make_candidates(self.recipe, self.grid, source.n_in, bool(source.objects), self.fitted)
        # Everything that a fit would refuse is refused now, for every candidate.
        self.asks = {c.of_map: self._ask(c.recipe) for c in self.candidates}
        kernels = [ask.recipe.kernels[0] for ask in self.asks.values()]
        for gamma in {ask.recipe.gamma: None for ask in self.asks.values()}:
            check_gamma(kernels, gamma)
        self.identity = describe_run(source, self.recipe, digest_of_rows(self.validation))
        values = {name: [str(c.asked[name]) for c in self.candidates] for name in self.candidates[0].asked}
        words = {name: " | ".join(dict.fromkeys(axis)) for name, axis in values.items()}
        self.identity["recipe"] |= {"grid": words, "budget": repr(self.budget)}

    @abstractmethod
    def _ask(self, recipe: Recipe) -> Ask:
        """Make the request of a fit by this recipe, and refuse a fit that is not possible."""

    @property
    @abstractmethod
    def checkpoint_bytes(self) -> int:
        """Bytes of the checkpoint on disk."""

    @abstractmethod
    def run(self) -> dict[str, Any]:
        """Run the search, and return its result as the journal stores it."""

    def _choose_once(self, candidate: SearchCandidate, name: str, choose: Callable[[], SelectedModel]) -> SelectedModel:
        """Choose numbers for the words of a candidate; multiples of one gamma have one name and share a choice."""
        if name not in self._choices:
            self._choices[name] = choose()
        choice = self._choices[name]
        return replace(choice, kernel=scale_gammas(choice.kernel, candidate.factor), why={})

    def _has_time(self, spent: float) -> bool:
        """True if the budget has time for a step that takes as long as the one before."""
        return self.clock() - self.began + spent <= self.budget.seconds

    def _comparable(self, loss: float, error: float) -> float:
        """Return the figure that compares candidates: loss or score if all have the same one, else error or rmse."""
        alike = self.recipe.scoring != BY_LOSS or len({c.recipe.loss for c in self.candidates}) == 1
        value = loss if alike else error
        return value if math.isfinite(value) else math.inf
