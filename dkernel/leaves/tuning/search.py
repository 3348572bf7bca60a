"""A search by successive halving: all candidates read the same rows, the worse half is dropped at each rung.

    rung r:  c 2^r rounds, of 32 in a pass; then the better half stays, by the loss on rows before they were used

c makes the whole race about two passes for any number of candidates; for more than 64, where c is 1, it is longer.

This is successive halving (Jamieson and Talwalkar 2016), in which a candidate costs a few heads, or a map if its gamma
is its own. The maps of the race are small: the largest has RACED columns, and the others are smaller in proportion. The
winner is fitted at its full size, as without a search, with the kernel, the scaling and the metric of the race, and
with its alpha if the grid names alphas. Nothing depends on the workers. A budget of time can end the race only at the
end of a rung. The result records the passes until there, and a budget of these passes gives the same bytes again.
"""

import hashlib
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from dkernel.data.object_columns import check_source
from dkernel.data.scratch import Scratch
from dkernel.data.source import Source
from dkernel.errors import DataError, RecipeError
from dkernel.leaves.tuning.base import ParameterSearch
from dkernel.leaves.tuning.few_rows import SEARCH_PASSES, FewRowsSearch, judges_by_rows_left_out
from dkernel.leaves.tuning.search_space import Budget, SearchCandidate
from dkernel.leaves.tuning.successive_halving import RacedHeads, RacedMap, run_rounds
from dkernel.losses.losses import parse_loss
from dkernel.losses.scoring import BY_LOSS, SCORERS
from dkernel.model.recipe import Recipe
from dkernel.numerics.threads import one_blas_thread
from dkernel.solvers.fit_problem import FitRun
from dkernel.solvers.objective import LossSums
from dkernel.solvers.sgd_setup import load_or_prepare, prepare
from dkernel.streaming.block_reader import BlockReader
from dkernel.streaming.execution.base import Executor
from dkernel.streaming.progress import Progress
from dkernel.training.ask import Ask, merge_copies
from dkernel.training.checkpoint import FIT, SEARCH, Checkpoint
from dkernel.training.fit import TrainResult, Validation, train, with_validation
from dkernel.training.reopening import with_reopened
from dkernel.training.selection.candidates import SelectedModel
from dkernel.training.selection.metric_learning import check_metric
from dkernel.training.stages import Fit, choose_model, choose_order, learn_labels, pose_problem, read_survey

RACE_ROUNDS = 32  # rounds of a pass of the race
RACED = 1024  # columns of the largest map of a race: all maps together cost less than the fit of the winner


@dataclass(frozen=True, eq=False)
class TuneResult:
    """Result of a search.

    Parameters
    ----------
    fit : result of `train` for the winner
    leaderboard : one line for each candidate, the best first: rank, searched values, the kernel with its numbers, the
        number of its rungs, and the progressive loss and the error (or rmse) on the rows of its last rung; for few
        rows, and with validation rows, the loss and error on rows left out of a fit
    params : searched parameter -> value of the winner
    recipe : recipe of the winner
    passes : passes of the search over the data; a budget of these passes repeats the search
    """

    fit: TrainResult
    leaderboard: list[dict[str, Any]]
    params: dict[str, Any]
    recipe: Recipe
    passes: float


def tune(
    source: Source,
    recipe: Recipe,
    executor: Executor,
    grid: Mapping[str, Sequence[Any]] | None = None,
    budget: Budget | str | float = "2passes",
    *,
    progress: Progress | None = None,
    scratch: Scratch | str | None = None,
    checkpoint: Checkpoint | None = None,
    validation: Validation = None,
    clock: Callable[[], float] = time.monotonic,
) -> TuneResult:
    """Search parameters and fit the winner; the bytes are the same for every executor.

    Parameters
    ----------
    source : source with a label
    recipe : parameters that all candidates share; gamma, metric and alpha are searched if they are "auto"
    grid : axis -> values, of `dkernel.leaves.tuning.search_space.AXES`; a gamma may also be '4*median' or '2*auto'
    budget : budget of the search, without the fit of the winner: "2passes", or "10min", which ends with a rung
    checkpoint : folder with the progress: the rungs in its folder search/, the fit in fit/
    validation : validation rows for the candidates and the winner, as in `train`
    clock : function that returns seconds, for a budget of time
    """
    if source.label is None:
        raise DataError("The data have no label to learn: open the source with one.")
    shown, of_search, of_fit = progress or Progress("none"), None, None
    if checkpoint is not None:
        of_search, of_fit = checkpoint.within(SEARCH), replace(checkpoint.within(FIT), resume=True)

    def run(source: Source, recipe: Recipe) -> TuneResult:
        source, rows, note = with_validation(source, recipe, executor, validation)
        source = merge_copies(source, recipe, executor)
        if source.n_counted < 2:
            raise DataError(f"The data have {source.n_counted} row(s) that count; a search needs at least two.")
        few = judges_by_rows_left_out(source, recipe, grid)
        search = (FewRowsSearch if few else HalvingSearch)(
            source=source,
            recipe=recipe if few else recipe.with_passes(),
            executor=executor,
            grid=grid or {},
            budget=Budget.of(budget),
            progress=shown,
            scratch=Scratch.of(scratch),
            validation=rows,
            clock=clock,
        )
        outcome = _resume_or_search(search, of_search)
        winner, chosen, board, passes = (outcome[name] for name in ("recipe", "chosen", "leaderboard", "passes"))
        if note:
            chosen = replace(chosen, why={**chosen.why, "holdout": note})
        result = train(
            source,
            winner,
            executor,
            progress=progress,
            scratch=scratch,
            checkpoint=of_fit,
            chosen=chosen,
            validation=rows,
        )
        params = outcome["params"]
        if winner.alpha == "auto":
            params = {**params, "alpha": result.model.recipe.alpha}
        facts = {"candidates": len(board), "passes": passes, "rungs": board[0]["rungs"], "winner": params}
        model = replace(result.model, facts={**result.model.facts, "search": facts})
        return TuneResult(replace(result, model=model), board, params, winner, passes)

    return with_reopened(run, source, recipe, of_search, progress)


def _resume_or_search(search: ParameterSearch, checkpoint: Checkpoint | None) -> dict[str, Any]:
    with ExitStack() as opened:
        if checkpoint is not None:
            journal = checkpoint.open(search.identity, search.checkpoint_bytes, search.progress)
            search.journal = opened.enter_context(journal)
        result: dict[str, Any] | None = search.journal.stored("result")
        if result is None:
            with one_blas_thread(), search.progress:
                planned = sum(ask.plan.seconds for ask in search.asks.values())
                search.progress.plan(min(planned, search.budget.seconds))
                result = search.run()
            search.journal.finish(result)
        return result


class HalvingSearch(ParameterSearch):
    """A search by successive halving: its candidates, the maps that they share, and the rungs."""

    fitted = False

    def __post_init__(self) -> None:
        super().__post_init__()
        recipe = self.recipe
        if any(c.recipe.cost is not None for c in self.candidates):
            raise RecipeError(
                "alpha='C=...': a search compares alphas on few rows at first. Give 1 / (C n) as a number."
            )
        if any(c.recipe.alpha == "auto" for c in self.candidates):
            raise RecipeError(
                "grid['alpha'] holds 'auto': a search compares numbers. Leave alpha out for its own grid."
            )
        self.alpha_asked = recipe.alpha != "auto" or "alpha" in self.grid
        for ask in self.asks.values():
            kernel = ask.recipe.kernels[0]
            check_source(kernel, self.source)
            check_metric(ask.recipe.metric, kernel, self.source.layout)
        most = max(ask.plan.sizes.components for ask in self.asks.values())
        self.shrink = max(1.0, most / RACED)
        rungs = math.ceil(math.log2(max(len(self.candidates), 2)))
        self.shares = 2**rungs - 1
        passes = SEARCH_PASSES + -(-self.shares // RACE_ROUNDS)
        self.base = self._ask(
            recipe.replace(n_components=self._columns_in_race(most), rounds=RACE_ROUNDS, passes=passes)
        )
        texts = [(c.recipe.to_text(), c.factor) for c in self.candidates]
        self.key = f"{self.base.key}-tune-{hashlib.sha256(json.dumps(texts).encode()).hexdigest()[:12]}"

    def _ask(self, recipe: Recipe) -> Ask:
        return Ask.of(self.source, recipe, self.executor, validation=self.validation)

    def _make_run(self, key: str) -> FitRun:
        return FitRun(self.executor, key, self.progress, self.journal, scratch=self.scratch)

    def _columns_in_race(self, columns: int) -> int:
        """Return the columns in the race for a map of `columns`; an even number, for maps of pairs."""
        # Maps of fewer than 32 components do not tell candidates apart.
        return min(columns, max(32, 2 * round(columns / self.shrink / 2)))

    @property
    def checkpoint_bytes(self) -> int:
        """Bytes on disk: preconditioners and coefficients of every map."""
        return int(len(self.asks) * self.base.plan.checkpoint_bytes)

    def run(self) -> dict[str, Any]:
        """Run the race, and return its result as the journal stores it."""
        base, run = self.base, self._make_run(self.base.key)
        reader = BlockReader(self.executor, base.source, base.plan.keeps_rows)
        try:
            fit = learn_labels(base, run, read_survey(base, run, reader), reader)
            self.targets = fit.targets
            if self.validation is None and base.recipe.scoring != BY_LOSS:
                self.validation = fit.split(fit.sizes).holdout
                if not len(self.validation.X):
                    raise RecipeError(
                        f"scoring={base.recipe.scoring!r} judges rows that are left out, and holdout=0 leaves none. "
                        "Give a holdout, or rows to judge by."
                    )
            base.plan_local(self.executor, self.targets.outputs)  # refuses what does not fit
            maps = self._make_maps(fit)
            schedules, reader, _ = choose_order(fit, fit.sizes)
            return self._race(maps, [turn for rounds in schedules for turn in rounds], len(schedules[0]), reader)
        finally:
            reader.close()

    def _make_maps(self, fit: Fit) -> list[RacedMap]:
        """Make the maps of the race, and prepare the candidates of each on the sample as in a fit."""
        self.chosen: dict[tuple[Any, ...], SelectedModel] = {}
        maps = []
        for i, of_map in enumerate(self.asks):
            mine = [number for number, c in enumerate(self.candidates) if c.of_map == of_map]
            self.chosen[of_map] = self._choose_model(self.candidates[mine[0]], fit)
            self.progress.phase(f"prepare {i + 1}/{len(self.asks)}")
            maps.append(self._make_map(i, of_map, mine, fit))
        return maps

    def _choose_model(self, candidate: SearchCandidate, base: Fit) -> SelectedModel:
        recipe = candidate.recipe
        name = f"choice-{recipe.kernel}-{recipe.gamma}-{recipe.metric}-{recipe.scale}"
        name = "choice-" + hashlib.sha256(name.encode()).hexdigest()[:12]
        fit = learn_labels(self.asks[candidate.of_map], self._make_run(self.key), base.survey, base.reader)
        fit = replace(fit, recipe=fit.recipe.replace(loss=parse_loss(fit.recipe.loss).text))
        return self._choose_once(candidate, name, lambda: choose_model(fit, step=name))

    def _make_map(self, i: int, of_map: tuple[Any, ...], mine: Sequence[int], base: Fit) -> RacedMap:
        chosen, full = self.chosen[of_map], self.asks[of_map]
        raced_map: RacedMap | None = None
        entries: list[RacedHeads] = []
        for loss in dict.fromkeys(self.candidates[number].recipe.loss for number in mine):
            of_loss = [number for number in mine if self.candidates[number].recipe.loss == loss]
            recipe = full.recipe.replace(
                kernel=repr(chosen.kernel),
                loss=loss,
                features=full.features,
                n_components=self._columns_in_race(full.plan.sizes.components),
            )
            run = FitRun(self.executor, f"{self.key}-{i}-{loss}", Progress("none"))
            known = learn_labels(self._ask(recipe), run, base.survey, base.reader)
            fit = pose_problem(known, chosen, known.sizes)
            if raced_map is None:
                raced_map = RacedMap(fit.objective, fit.coordinates, ())
            # All losses share one map.
            objective = replace(fit.objective, components=raced_map.objective.components)
            fit = replace(fit, objective=objective, coordinates=raced_map.coordinates)
            alphas = [float(self.candidates[number].recipe.alpha) for number in of_loss]
            # With 0 rows no alpha is left out, and the steps are those of rounds of few rows.
            setup = load_or_prepare(fit, self.journal, f"prepared-{i}-{len(entries)}", partial(prepare, fit, alphas, 0))
            entries.append(RacedHeads(objective.loss, setup.solver, setup.start, tuple(of_loss)))
        assert raced_map is not None
        return replace(raced_map, entries=tuple(entries))

    def _race(self, maps: list[RacedMap], rounds: Sequence[Any], length: int, reader: BlockReader) -> dict[str, Any]:
        alive = list(range(len(self.candidates)))
        last: dict[int, tuple[int, LossSums]] = {}
        first = max(1, SEARCH_PASSES * length // self.shares)
        self.whole = first * self.shares
        done = rung = 0
        spent = 0.0
        while len(alive) > 1 and done < len(rounds):
            turns = rounds[done : done + first * 2**rung]
            within = done + len(turns) <= self.budget.passes * length + 1e-3
            if rung and not (within and self._has_time(spent)):
                break
            maps = [smaller for raced in maps if (smaller := raced.only(alive)) is not None]
            rows = sum(piece.n for turn in turns for piece in turn)
            self.progress.phase(f"rung {rung + 1}", rows, candidates=len(alive), maps=len(maps))
            begin = self.clock()
            after = self.journal.step(
                f"rung-{rung}", partial(self._rung, maps, turns, reader, done, length, rounds[done + len(turns) :][:1])
            )
            spent = self.clock() - begin
            maps = [raced.at(after["v"]) for raced in maps]
            done, rung = done + len(turns), rung + 1
            last |= {number: (rung, LossSums(*score)) for number, score in after["scores"].items()}
            alive = sorted(alive, key=lambda n: (self._measure(last[n][1]), n))[: -(-len(alive) // 2)]
        return self._result(last, alive, done / length)

    def _rung(
        self,
        maps: list[RacedMap],
        turns: Sequence[Any],
        reader: BlockReader,
        done: int,
        length: int,
        following: Sequence[Any],
    ) -> dict[str, Any]:
        ahead = following[0] if following else None
        maps, scores = run_rounds(
            maps, turns, reader, f"{self.key}-race", done, length, self.whole, ahead, self.progress
        )
        if self.validation is not None:
            scores = {number: score for raced in maps for number, score in raced.judge(self.validation).items()}
        entries = [entry for raced in maps for entry in raced.entries]
        v = {number: np.array(entry.of(number)) for entry in entries for number in entry.candidates}
        return {
            "v": v,
            "scores": {number: (float(s.loss), float(s.right), s.weight, s.n) for number, s in scores.items()},
        }

    def _measure(self, score: LossSums) -> float:
        return self._comparable(score.loss / max(score.weight, 1e-300), self._figure(score)[1])

    def _figure(self, score: LossSums) -> tuple[str, float]:
        if self.targets.classes is None:
            return "rmse", self.targets.rmse(max(score.right, 0.0), score.n)
        return "error", 1 - score.right / max(score.n, 1)

    def _result(self, last: Mapping[int, tuple[int, LossSums]], alive: Sequence[int], passes: float) -> dict[str, Any]:
        # Candidates that ended at the same rung are compared on the rows of that rung.
        order = sorted(
            range(len(self.candidates)),
            key=lambda n: (n != alive[0], -last[n][0], self._measure(last[n][1]), n) if n in last else (n != alive[0],),
        )
        board = [self._line(rank, number, last.get(number)) for rank, number in enumerate(order, start=1)]
        best = self.candidates[alive[0]]
        chosen, asked = self.chosen[best.of_map], self.asks[best.of_map]
        params = {name: value for name, value in best.asked.items() if name != "gamma"}
        params["kernel"] = repr(chosen.kernel)
        text = f"{len(order)} candidates in {passes:.6g} passes, the budget that repeats the search"
        # The alpha of a small map may not suit the full size: unless it was searched, the fit chooses it again.
        alpha = best.recipe.alpha if self.alpha_asked else "auto"
        recipe = asked.recipe.replace(
            kernel=repr(chosen.kernel), loss=best.recipe.loss, alpha=alpha, scale=chosen.scaling.kind
        )
        return {
            "recipe": recipe,
            "chosen": replace(chosen, why={"search": text}),
            "leaderboard": board,
            "params": params,
            "passes": float(f"{passes:.6g}"),
        }

    def _line(self, rank: int, number: int, seen: tuple[int, LossSums] | None) -> dict[str, Any]:
        candidate = self.candidates[number]
        rungs, score = seen or (0, LossSums())
        line = {"rank": rank, **candidate.asked, "kernel": repr(self.chosen[candidate.of_map].kernel), "rungs": rungs}
        if seen is None:
            return line
        name, figure = self._figure(score)
        loss = score.loss / max(score.weight, 1e-300)
        # JSON has no infinity and no NaN, which a candidate that diverged may have.
        scoring = self.recipe.scoring
        if scoring != BY_LOSS:
            figures = {"score": SCORERS[scoring].score(loss, self.targets.unit), name: figure}
        else:
            figures = {"progressive_loss" if self.validation is None else "left_out_loss": loss, name: figure}
        return {**line, "rows": score.n, **{k: v if math.isfinite(v) else None for k, v in figures.items()}}
