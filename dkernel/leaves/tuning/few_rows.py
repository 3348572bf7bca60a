"""A search on few rows: each candidate is fitted as `train` fits it, and judged as `train` judges its alphas.

The first candidate is the choice of `train` itself. Each fit chooses its alpha by the loss on rows left out of a fit,
and that loss compares the candidates. A race of a few rounds would compare them on tens of rows.
"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

from dkernel.data.source import Source
from dkernel.leaves.tuning.base import ParameterSearch
from dkernel.leaves.tuning.search_space import SearchCandidate
from dkernel.losses.scoring import BY_LOSS
from dkernel.model.recipe import Recipe
from dkernel.model.solver_table import SOLVERS
from dkernel.solvers.fit_problem import FitRun
from dkernel.streaming.block_reader import BlockReader
from dkernel.training.ask import Ask, settle_source, with_solver
from dkernel.training.fit import train
from dkernel.training.selection.candidates import SelectedModel
from dkernel.training.stages import choose_model, learn_labels, read_survey

SEARCH_PASSES = 2  # approximate passes of a whole race; a whole search on few rows counts as so many


def judges_by_rows_left_out(source: Source, recipe: Recipe, grid: Mapping[str, Sequence[Any]] | None) -> bool:
    """True if `train` solves these rows exactly and chooses alpha by rows that it leaves out."""
    asked = dict(grid or {})
    if recipe.alpha != "auto" or "alpha" in asked:
        return False
    losses = [recipe.replace(loss=loss) for loss in asked.get("loss", (recipe.loss,))]
    return all(SOLVERS[with_solver(each, source).solver].in_memory for each in losses)


class FewRowsSearch(ParameterSearch):
    """A search on few rows, which fits each candidate."""

    fitted = True

    def _ask(self, recipe: Recipe) -> Ask:
        settled = settle_source(self.source, recipe, self.executor, None, self.validation)
        return Ask.of(*settled, self.executor, validation=self.validation)

    @property
    def checkpoint_bytes(self) -> int:
        """Bytes on disk: the few figures of each candidate do not count."""
        return 0

    def run(self) -> dict[str, Any]:
        """Run the search, and return its result as the journal stores it."""
        lines: dict[int, dict[str, Any]] = {}
        self._leave_out_copies()
        total, spent = len(self.candidates), 0.0
        for number, candidate in enumerate(self.candidates):
            passes = SEARCH_PASSES * (number + 1) / total
            if number and not (passes <= self.budget.passes + 1e-3 and self._has_time(spent)):
                break
            self.progress.phase(f"candidate {number + 1}/{total}")
            begin = self.clock()
            lines[number] = self.journal.step(f"candidate-{number}", partial(self._judge, candidate))
            spent = self.clock() - begin
        return self._result(lines, SEARCH_PASSES * len(lines) / total)

    def _leave_out_copies(self) -> None:
        """Keep the first of candidates with the same fit: "auto" may resolve to another word of its axis."""
        different: dict[tuple[str, ...], SearchCandidate] = {}
        for candidate in self.candidates:
            chosen = self._choose_model(candidate)
            words = candidate.recipe.replace(kernel=repr(chosen.kernel), gamma="auto", metric=chosen.metric)
            different.setdefault((words.to_text(), chosen.scaling.kind), candidate)
        self.candidates = list(different.values())

    def _judge(self, candidate: SearchCandidate) -> dict[str, Any]:
        """Return the line of a candidate: its alpha, and the figures of rows left out of a fit."""
        chosen = self._choose_model(candidate)
        rows, scratch = self.validation, self.scratch
        fit = train(self.source, candidate.recipe, self.executor, scratch=scratch, chosen=chosen, validation=rows)
        model = fit.model
        judged = model.facts["holdout"]
        error = {"rmse": judged["rmse"]} if model.classes is None else {"error": 1 - judged["accuracy"]}
        asked = {**self._name(candidate), "alpha": model.recipe.alpha}
        scoring = candidate.recipe.scoring
        figures = {"left_out_loss": judged["loss"]} if scoring == BY_LOSS else {"score": judged[scoring]}
        figures |= error
        return {**asked, "kernel": repr(chosen.kernel), "rungs": 1, "rows": judged["rows"], **figures}

    def _choose_model(self, candidate: SearchCandidate) -> SelectedModel:
        """Choose numbers for the words of a candidate, as a fit does."""
        ask = self.asks[candidate.of_map]

        def choose() -> SelectedModel:
            run = FitRun(self.executor, ask.key, self.progress, scratch=self.scratch)
            with closing(BlockReader(self.executor, ask.source, ask.plan.keeps_rows)) as reader:
                fit = learn_labels(ask, run, read_survey(ask, run, reader), reader)
            return choose_model(fit)

        return self._choose_once(candidate, candidate.recipe.to_text(), choose)

    def _name(self, candidate: SearchCandidate) -> dict[str, Any]:
        """Return the searched values of a candidate, with its metric resolved."""
        metric = self._choose_model(candidate).metric
        return {name: metric if name == "metric" else value for name, value in candidate.asked.items()}

    def _measure(self, line: Mapping[str, Any]) -> float:
        loss = -line["score"] if "score" in line else line["left_out_loss"]
        return self._comparable(loss, line.get("error", line.get("rmse")))

    def _result(self, lines: Mapping[int, dict[str, Any]], passes: float) -> dict[str, Any]:
        """Return the leaderboard and the winner; in a tie the first wins, which is the choice of `train`."""
        order = sorted(lines, key=lambda number: (self._measure(lines[number]), number))
        board = [{"rank": rank, **lines[number]} for rank, number in enumerate(order, start=1)]
        for number in range(len(lines), len(self.candidates)):
            kernel = repr(self._choose_model(self.candidates[number]).kernel)
            asked = self._name(self.candidates[number])
            board.append({"rank": len(board) + 1, **asked, "kernel": kernel, "rungs": 0})
        best = self.candidates[order[0]]
        chosen = self._choose_model(best)
        params = {name: value for name, value in self._name(best).items() if name != "gamma"}
        text = f"{len(board)} candidates in {passes:.6g} passes, the budget that repeats the search, on rows left out"
        return {
            "recipe": best.recipe,
            "chosen": replace(chosen, why={"search": text}),
            "leaderboard": board,
            "params": {**params, "kernel": repr(chosen.kernel)},
            "passes": float(f"{passes:.6g}"),
        }
