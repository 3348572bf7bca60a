"""The base class of local stages, for plan, race, fit and update."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np

from dkernel.data.block import Block
from dkernel.data.source import Source
from dkernel.errors import UnsupportedError
from dkernel.losses.losses import Loss, parse_loss
from dkernel.model.local.base import LocalMachine
from dkernel.model.local_settings import LocalSettings
from dkernel.model.model import Model
from dkernel.model.recipe import Recipe
from dkernel.numerics.array_types import F64
from dkernel.numerics.loops import CompiledLoop
from dkernel.solvers.targets import Targets
from dkernel.streaming.cost import Cost
from dkernel.streaming.execution.base import Executor
from dkernel.streaming.survey import SurveyResult
from dkernel.training.residual import Residual, ResidualRows
from dkernel.training.selection.descent import SettingIndex
from dkernel.training.selection.evaluation import FitValidationSplit, StageScores
from dkernel.training.stage_result import StageResult


def constant_scores(split: FitValidationSplit, rows: int) -> StageScores:
    """Return the scores of the global stage with features="none": the mean of the targets."""
    weight = None if split.weight is None else split.weight[:rows]
    mean = np.average(split.targets.of(split.y[:rows]), axis=0, weights=weight).astype(np.float32)
    return StageScores(np.tile(mean, (rows, 1)), np.tile(mean, (len(split.y_judged), 1)))


class Stage(ABC):
    """A local stage: it fits a machine to the residual of a global stage. It has no state.

    Attributes
    ----------
    settings : class of its settings, with the word of the stage
    learns_rest : whether few components are enough before it
    ends_early : whether its cost is a limit that it reaches only while the holdout gains
    loops : compiled loops that it needs
    """

    settings: ClassVar[type[LocalSettings]]
    learns_rest: ClassVar[bool] = False
    ends_early: ClassVar[bool] = False
    loops: ClassVar[tuple[CompiledLoop, ...]] = ()

    def takes(self, loss: Loss) -> bool:
        """True if it can learn the residual of a loss; by default that of a loss without kinks."""
        return loss.smooth

    def check(self, recipe: Recipe, source: Source) -> None:
        """Refuse a recipe that asks for it if the loss or the rows do not suit it."""
        source.layout.require_numbers(f"local={recipe.local!r}", "Use local='none'.")
        loss = parse_loss(recipe.loss)
        if not self.takes(loss):
            raise UnsupportedError(
                f"local={recipe.local!r} needs a loss without kinks and loss={loss.text!r} has them. Use "
                f"loss={loss.smooth_counterpart!r}, or local='none'."
            )

    @abstractmethod
    def cost(self, n: int, p: int, recipe: Recipe, outputs: int, merged: int = 0) -> Cost:
        """Return the cost of its fit to n rows of p features.

        Parameters
        ----------
        merged : how many fewer inputs a stage has that takes each category as one input
        """

    @abstractmethod
    def prepare(self, survey: SurveyResult, source: Source, recipe: Recipe, targets: Targets, rows: Block) -> Any:
        """Return the data that `learn` needs beside the split.

        Parameters
        ----------
        rows : rows of the reservoir
        """

    @abstractmethod
    def learn(self, split: FitValidationSplit, prepared: Any, threads: int) -> Any:
        """Return the data that all of its fits in a race share beside the split; runs on a worker.

        Parameters
        ----------
        prepared : result of `prepare`
        """

    @abstractmethod
    def try_(
        self, split: FitValidationSplit, rows: int, start: StageScores, shared: Any, setting: SettingIndex | None
    ) -> tuple[F64, SettingIndex | None]:
        """Fit it to `rows` rows; return losses of the validation rows (judged,), and its setting; runs on a worker.

        Parameters
        ----------
        start : scores of the global stage
        shared : result of `learn`
        setting : setting from fewer rows; None for a search
        """

    @abstractmethod
    def fit(self, residual: Residual, setting: Any) -> StageResult:
        """Fit it to the residual of all rows, and keep it if the holdout improves.

        Parameters
        ----------
        setting : setting of a race, or of another way; None for a search
        """

    @abstractmethod
    def update(
        self, machine: Any, model: Model, rows: ResidualRows, old: Block | None, executor: Executor
    ) -> LocalMachine:
        """Learn new rows, or refuse them.

        Parameters
        ----------
        rows : targets and scores in the machine's unit
        old : training rows, all or a sample of them, or None
        """
