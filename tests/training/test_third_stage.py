"""A third local stage, made up here: entered in the catalogues, it is fitted, judged, saved, loaded and scored."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

import dkernel
from dkernel import KernelRegressor
from dkernel.data.collections.arrays import from_arrays
from dkernel.errors import ModelFileError, RecipeError, UnsupportedError
from dkernel.model.local.base import LocalMachine
from dkernel.model.local_settings import STAGES, LocalSettings, register_stage
from dkernel.model.recipe import Recipe
from dkernel.model.recipe_checks import parameter, whole
from dkernel.streaming.cost import Cost
from dkernel.streaming.execution.local import SerialExecutor
from dkernel.training.fit import plan, train
from dkernel.training.local_stages import LOCAL_STAGES
from dkernel.training.selection.local_stage import Stage
from dkernel.training.stage_result import StageResult


@dataclass(repr=False)
class Means(LocalSettings):
    """Settings of the mean residual of each bin of the first feature."""

    bins: int = parameter(16, "Number of bins.", whole(1), form="N", kind="int")

    @staticmethod
    def _machine():
        return MeanMachine


@dataclass(frozen=True, eq=False)
class MeanMachine(LocalMachine):
    """f(x) = unit mean[bin(x_0)].

    Parameters
    ----------
    edges : between bins, (bins - 1,)
    means : (bins, outputs)
    """

    kind = "means"
    edges: np.ndarray
    means: np.ndarray
    unit: np.ndarray

    @classmethod
    def of(cls, X, residual, weight, bins, unit):
        edges = np.linspace(X[:, 0].min(), X[:, 0].max(), bins + 1)[1:-1]
        codes = np.searchsorted(edges, X[:, 0])
        sums = [np.bincount(codes, weight * column, minlength=bins) for column in residual.T]
        return cls(edges, np.stack(sums, axis=1) / np.maximum(np.bincount(codes, weight, bins), 1)[:, None], unit)

    def scores(self, X):
        return self.means[np.searchsorted(self.edges, X[:, 0])] * self.unit

    def without(self, outputs):
        return replace(self, means=np.where(np.isin(range(len(self.unit)), outputs), 0, self.means))

    def fits(self, n_in, outputs):
        return n_in > 0 and self.means.shape == (len(self.edges) + 1, outputs)

    def spec(self):
        return {"kind": self.kind}

    def arrays(self):
        return {"edges": self.edges, "means": self.means, "unit": self.unit}

    @classmethod
    def build(cls, spec, arrays):  # noqa: ARG003 - it has the word alone
        return cls(**arrays)


class MeanStage(Stage):
    settings = Means

    def cost(self, n, _p, recipe, outputs, _merged):
        return Cost(flops=10.0 * n, model_bytes=8 * recipe.settings(Means).bins * (outputs + 1))

    def prepare(self, *_):
        return None

    def learn(self, *_):
        return np.zeros(0)

    def try_(self, split, rows, start, *_):
        steps = -split.loss.derivative(split.targets.of(split.y[:rows]), start.fitted) / split.loss.curvature
        machine = MeanMachine.of(split.X[:rows], steps, np.ones(rows), 16, np.ones(steps.shape[1]))
        return split.losses(start.judged + machine.scores(split.X_judged)), None

    def update(self, *_):
        raise UnsupportedError("Means learn no new rows.")

    def fit(self, residual, _):
        rows, loss, unit = residual.sample, residual.objective.loss, residual.objective.targets.widths
        bins = residual.problem.recipe.settings(Means).bins
        steps = -loss.derivative(rows.Y, rows.scores) / loss.curvature
        machine = MeanMachine.of(rows.X, steps, rows.weight, bins, unit)
        scores = residual.holdout.scores + machine.scores(residual.holdout.X) / unit
        return StageResult.judge(machine, [], {"bins": bins}, f"{bins} bins", residual, scores.astype(np.float32))


@pytest.fixture(autouse=True)
def _entered(monkeypatch):
    monkeypatch.setitem(STAGES, "means", None)
    register_stage("means")(Means)
    monkeypatch.setitem(LOCAL_STAGES, "means", MeanStage())


def steps(n=2000, seed=0):
    """A stair of the first feature, too rough for few components, and a slope of the second."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 1, (n, 2)).astype(np.float32)
    return X, np.floor(16 * X[:, 0]) % 2 + X[:, 1] + 0.05 * rng.normal(size=n)


def machine(local):
    return KernelRegressor(gamma=0.5, n_components=32, alpha=1e-4, solver="psgd", local=local)


def test_it_is_fitted_saved_loaded_and_scored_by_its_word(tmp_path):
    (X, y), (new, truth) = steps(), steps(500, seed=1)
    found = machine("means(bins=32)").fit(X, y)
    assert found.chosen_["local"].startswith("32 bins: loss")
    assert found.score(new, truth) > 0.9 > machine("none").fit(X, y).score(new, truth) + 0.3
    dkernel.save(found, tmp_path / "m.safetensors")
    again = dkernel.load(tmp_path / "m.safetensors")
    assert again.local == Means(32)
    assert isinstance(again.model_.local, MeanMachine)
    np.testing.assert_array_equal(again.predict(new), found.predict(new))


def test_its_settings_are_those_of_any_stage():
    assert Recipe(local=Means(32)) == Recipe(local="means(bins=32)")
    assert machine("means").set_params(local__bins=4).get_params()["local__bins"] == 4
    with pytest.raises(RecipeError, match="has no setting 'bin'"):
        Recipe(local="means(bin=4)")
    with pytest.raises(UnsupportedError, match="local='means' needs a loss without kinks"):
        machine("means").set_params(loss="quantile").fit(*steps(300))


def test_it_runs_in_the_race_and_stands_in_the_plan():
    source = from_arrays(*steps())
    found = plan(source, Recipe(task="regress", solver="psgd", holdout=0.5), SerialExecutor())
    assert found["local"] == [*LOCAL_STAGES]
    assert found["local"][-1] == "means"
    found = train(source, Recipe(task="regress", local="means", holdout=0.2), SerialExecutor())
    assert found.plan["local"] == ["means"]
    assert found.chosen["way"].startswith("means or components + means; losses on the holdout")
    assert "16 bins: loss" in found.chosen["local"]


def test_a_process_that_does_not_know_it_says_so(tmp_path, monkeypatch):
    dkernel.save(machine("means").fit(*steps()), tmp_path / "m.safetensors")
    monkeypatch.delitem(STAGES, "means")
    with pytest.raises(ModelFileError, match="means"):
        dkernel.load(tmp_path / "m.safetensors")
