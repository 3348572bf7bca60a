"""The rungs of the choice, with a judge whose losses are a formula."""

from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pytest

from dkernel.features import Scaling
from dkernel.kernels import Gaussian, Laplacian
from dkernel.model.recipe import Recipe
from dkernel.solvers.sizes import LEAST_COMPONENTS
from dkernel.training.selection import rungs
from dkernel.training.selection.candidates import Candidate
from dkernel.training.selection.evaluation import CandidateLoss, Fidelity
from dkernel.training.selection.judge import Judge, Trial
from dkernel.training.selection.model_selection import choice_cost
from dkernel.training.selection.rungs import RUNGS, Search

FAMILIES = [Gaussian(), Laplacian()]
SCALING = Scaling("none", np.zeros(2), np.ones(2))


@dataclass
class FormulaJudge:
    """Judges a candidate by a function of its family and factor."""

    loss_of: object
    rows: int = 50_000
    components: int = 4096
    judged: list = field(default_factory=list)
    fidelities: list = field(default_factory=list)
    drawing = None

    @property
    def split(self):
        return SimpleNamespace(X=range(self.rows), X_judged=range(self.rows // 3))

    def within(self, fidelity):
        return fidelity.within(self.components, self.split)

    def affordable_fidelity(self, fidelity, *_):
        return fidelity

    def trials(self, candidates, fidelity):
        self.judged += candidates
        self.fidelities.append(fidelity)
        trials = [Trial(c, CandidateLoss(self.loss_of(c), np.zeros((1, 1)), 1e-3)) for c in candidates]
        return sorted(trials, key=lambda trial: trial.loss)


@dataclass
class GammaSpace:
    """Families whose one open word is gamma."""

    families: list
    p = 2
    linear_is_open = False
    recipe = Recipe()

    def grid(self, _):
        return (0.5, 1.0, 2.0)

    def choose_metric(self, _):
        return "identity"

    def candidates(self):
        return [Candidate(family, family, SCALING, f) for family in self.families for f in self.grid(family)]

    def at_multiples(self, candidate, multiples):
        return [
            Candidate(candidate.family, candidate.kernel, candidate.scaling, candidate.factor * m) for m in multiples
        ]


def search_of(loss_of, families=FAMILIES[:1], **judge):
    space = GammaSpace(families)
    return Search(space, FormulaJudge(loss_of, **judge), space.candidates())


def climb(search, names):
    leaders = []
    for rung in RUNGS:
        if rung.name in names and rung.is_open(search, leaders):
            leaders = rung.climb(search, leaders, rung.fidelity)
    return leaders


def test_grid_extends_to_a_minimum_beyond_its_end():
    search = search_of(lambda c: abs(np.log2(c.factor) - 5) + 1)
    assert climb(search, ["grid"])[0].candidate.factor == 32.0
    assert max(c.factor for c in search.judge.judged) > 32.0


@pytest.mark.parametrize(("alpha", "least"), [("auto", 0.5 * 4.0**-rungs.EXTENSIONS), (1e-3, 0.5)])
def test_grid_goes_on_downwards_for_a_time_where_alpha_is_open(alpha, least):
    search = search_of(lambda c: c.factor)
    search.space.recipe = Recipe(alpha=alpha)
    climb(search, ["grid"])
    assert min(c.factor for c in search.judge.judged) == least


def test_of_many_features_ever_smaller_gammas_are_tried():
    search = search_of(lambda c: abs(np.log2(c.factor) + 6) + 1)
    search.space.p = 1000
    leaders = [search.judge.trials(search.candidates[1:2], rungs.FINALIST_RUNG)[0]]
    assert rungs.try_more_components(search, leaders, rungs.LAST_RUNG)[0].candidate.factor == 2.0**-6


def test_grid_stays_where_the_minimum_is_inside():
    search = search_of(lambda c: abs(np.log2(c.factor)) + 1)
    climb(search, ["grid"])
    assert len(search.judge.judged) == 3


def test_every_family_reaches_the_finalists():
    search = search_of(lambda c: c.factor + 100 * isinstance(c.family, Laplacian), FAMILIES)
    leaders = climb(search, ["grid"])
    assert {type(trial.candidate.family) for trial in leaders} == {Gaussian, Laplacian}


@pytest.mark.parametrize(("components", "counted"), [(LEAST_COMPONENTS, False), (2 * LEAST_COMPONENTS, True)])
def test_components_are_counted_where_a_fit_may_have_fewer(components, counted):
    search = search_of(lambda c: c.factor, components=components)
    assert rungs.can_count_components(search, climb(search, ["grid"])) == counted


def test_no_fewer_components_are_enough_than_the_fewest_of_a_fit():
    """A trial fits as many first: with a smaller number here it would fit the same ones again."""
    search = search_of(lambda _: 1.0)
    leaders = climb(search, ["grid"])
    search.judge.trials = lambda *_: [
        Trial(leaders[0].candidate, CandidateLoss(1.0, np.zeros((1, 1)), gain=0, error=0))
    ]
    rungs.count_components(search, leaders, rungs.LAST_RUNG)
    assert search.enough == LEAST_COMPONENTS


def test_finalists_are_not_judged_twice_on_the_same_rows():
    search = search_of(lambda c: c.factor, rows=900, components=256)
    climb(search, ["grid", "finalists"])
    assert {fidelity.components for fidelity in search.judge.fidelities} == {256}


def test_more_components_may_take_the_next_gamma():
    search = search_of(
        lambda c: abs(np.log2(c.factor) - (1 if search.judge.fidelities[-1].components > 512 else 0)) + 1
    )
    assert climb(search, ["grid", "finalists"])[0].candidate.factor == 1.0
    assert climb(search, ["grid", "finalists", "metric", "components"])[0].candidate.factor == 2.0


def test_a_rung_that_is_added_is_climbed_and_planned(monkeypatch):
    climbed = []
    added = rungs.Rung(
        "added", Fidelity(64, 100, 100), rungs.always, lambda s, leaders, _: climbed.append(s) or leaders, lambda _: 7
    )
    before = choice_cost(Recipe(), 8, 20_000, 4096, False, 1e15).flops
    monkeypatch.setattr("dkernel.training.selection.model_selection.RUNGS", (*RUNGS, added))
    from dkernel import KernelRegressor

    KernelRegressor(local="none").fit(np.random.default_rng(0).random((90, 2)), np.arange(90.0))
    assert len(climbed) == 1
    assert choice_cost(Recipe(), 8, 20_000, 4096, False, 1e15).flops > before


@pytest.mark.parametrize("budget", [0.0, 1e15])
def test_fidelity_is_halved_until_the_budget_holds_it(budget):
    judge = Judge(None, 8, 4096, None, budget, None, "key")
    fidelity = judge.affordable_fidelity(rungs.LAST_RUNG, FAMILIES, rungs.LEAST_FIDELITY)
    assert fidelity.components == (rungs.LEAST_FIDELITY if budget == 0 else rungs.LAST_RUNG.components)
