"""The trial of the ways: which of them are fitted to all rows, with how many components, and which is the best."""

import threading
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import numpy as np
import pytest

from dkernel.data.collections.arrays import from_arrays
from dkernel.model.recipe import Recipe
from dkernel.solvers.sizes import LEAST_COMPONENTS
from dkernel.streaming.execution.local import SerialExecutor, ThreadsExecutor
from dkernel.training import trial
from dkernel.training.checkpoint import Checkpoint
from dkernel.training.fit import train
from dkernel.training.grids.fit import GridSolver
from dkernel.training.holdout_losses import HoldoutLosses
from dkernel.training.selection.candidates import SelectedModel
from dkernel.training.selection.ways import COMPONENTS, GRIDS_ALONE, Way
from dkernel.training.trial import TRIAL_ROWS, WayTrial
from tests.streaming.sources import waves
from tests.training.fits import digest

BOTH = Way("kernel", "grids")
WAYS = (Way(), GRIDS_ALONE, BOTH)
SPREAD = np.linspace(0.9, 1.1, 100)  # of the rows of the holdout


@dataclass
class Run:
    """A run that keeps the notes."""

    key: str = "run"
    journal: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(within=lambda _: None))
    chosen: dict = field(default_factory=dict)
    stopped: threading.Event = field(default_factory=threading.Event)

    def note(self, name, text):
        self.chosen[name] = text


@dataclass
class Known:
    """A fit after its survey."""

    run: Run
    sizes: SimpleNamespace
    recipe: Recipe
    survey: None = None

    def split(self, _):
        return SimpleNamespace(holdout=SimpleNamespace(X=np.zeros((100, 1))))


def run_trial(monkeypatch, losses, reached=np.inf, enough=None, n=10_000, components=2048, raced=(), **recipe):
    """The components of each fit in order, the settings that each began with, and the components of the best.

    Parameters
    ----------
    losses : components of a fit, 0 of grids alone -> its loss
    reached : loss of the choice on the sample
    raced : ways that win a race
    """
    seen = []

    def fit(self, known, chosen, ways):
        alone = list(ways) == [GRIDS_ALONE]
        most = 0 if alone else components if chosen.enough is None else chosen.enough
        seen.append((most, self.settings))
        losses_of = HoldoutLosses("squared", losses[most] * SPREAD, None, np.ones(100))
        return SimpleNamespace(
            losses=losses_of,
            holdout=losses_of.figures,
            machine="grids",
            learns=True,
            local=SimpleNamespace(setting="settings of grids alone"),
            text=str(most),
            fit=SimpleNamespace(recipe=SimpleNamespace(local_stage="grids", constant_map=alone)),
            problem=SimpleNamespace(run=known.run),
        )

    def choose(_, left, tried, **__):
        chosen = raced or tuple(way for way in tried or left if way != GRIDS_ALONE)
        return SelectedModel(None, None, {"way": "why"}, enough=enough, ways=chosen, reached=reached)

    monkeypatch.setattr(WayTrial, "_fit_way", fit)
    monkeypatch.setattr(trial, "choose_model", choose)
    known = Known(Run(), SimpleNamespace(n=n, components=components), Recipe(**recipe))
    with ExitStack() as opened:
        best = WayTrial(known, WAYS, opened).run()
    return [most for most, _ in seen], [settings for _, settings in seen], int(best.text)


@pytest.mark.parametrize(
    ("losses", "reached", "fitted", "best"),
    [
        ({0: 0.5, 2048: 0.4}, 0.45, [0, 2048], 2048),  # the choice leads grids
        ({0: 0.5, 1024: 0.45, 2048: 0.4}, 0.6, [0, 1024, 2048], 2048),
        ({0: 0.5, 1024: 0.55, 2048: 0.4}, 0.6, [0, 1024], 0),  # few are no better than grids
        ({0: 0.5, 1024: 0.5}, 0.6, [0, 1024], 1024),  # of equals components come first
    ],
)
def test_all_components_are_fitted_where_they_may_win(monkeypatch, losses, reached, fitted, best):
    found, _, won = run_trial(monkeypatch, losses, reached)
    assert (found, won) == (fitted, best)


@pytest.mark.parametrize(("enough", "components"), [(LEAST_COMPONENTS, 2048), (None, 512)])
def test_no_more_components_are_fitted_than_are_enough(monkeypatch, enough, components):
    most = enough or components
    assert run_trial(monkeypatch, {0: 0.5, most: 0.4}, 0.6, enough, components=components)[0] == [0, most]


def test_grids_behind_components_go_on_from_the_settings_of_grids_alone(monkeypatch):
    _, settings, _ = run_trial(monkeypatch, {0: 0.5, 1024: 0.45, 2048: 0.4})
    assert settings == [None, "settings of grids alone", "settings of grids alone"]


def test_with_a_low_effort_grids_that_gain_are_enough(monkeypatch):
    assert run_trial(monkeypatch, {0: 0.5}, effort="low")[0] == [0]


@pytest.mark.parametrize(
    ("raced", "fitted"),
    [
        ((), [0]),
        ((Way(),), [2048, 0]),  # grids end as soon as they stay behind
        ((Way(), BOTH), [0, 2048]),  # the settings of grids alone come first
    ],
)
def test_of_many_rows_the_race_says_what_is_fitted_beside_grids(monkeypatch, raced, fitted):
    monkeypatch.setattr(trial, "explain_order", lambda _: "")
    assert run_trial(monkeypatch, {0: 0.5, 2048: 0.4}, n=TRIAL_ROWS + 1, raced=raced)[0] == fitted


class StoppedError(Exception):
    """Ends a fit where a test wants it."""


def test_an_early_end_of_grids_has_the_same_bytes_after_a_kill(monkeypatch, tmp_path):
    monkeypatch.setattr(trial, "TRIAL_ROWS", 1000)  # of which 4,500 are many
    choose = trial.choose_model

    def choose_components(known, ways=(), **given):
        chosen = choose(known, ways, **given)
        return replace(chosen, ways=(COMPONENTS,)) if len(ways) > 1 else chosen

    monkeypatch.setattr(trial, "choose_model", choose_components)
    ends, finish, judge = [], GridSolver.finish, GridSolver._after
    monkeypatch.setattr(GridSolver, "finish", lambda self, state: ends.append(state) or finish(self, state))
    X, y = waves(4500)

    def fit(executor, folder=None):
        source = from_arrays(X, y)
        checkpoint = None if folder is None else Checkpoint(folder, resume=True)
        return train(source, Recipe(solver="psgd", task="regress", loss="squared"), executor, checkpoint=checkpoint)

    result = fit(SerialExecutor())
    assert [(state.beaten, state.steps < 32) for state in ends] == [(True, True)]
    whole = digest(result, tmp_path)
    assert digest(fit(ThreadsExecutor(2)), tmp_path) == whole

    def stop(self, state, *given):
        if state.steps == ends[0].steps - 1:
            raise StoppedError
        return judge(self, state, *given)

    monkeypatch.setattr(GridSolver, "_after", stop)
    with pytest.raises(StoppedError):
        fit(SerialExecutor(), tmp_path / "c")
    monkeypatch.setattr(GridSolver, "_after", judge)
    assert digest(fit(SerialExecutor(), tmp_path / "c"), tmp_path) == whole
    assert ends[-1].steps == ends[0].steps
