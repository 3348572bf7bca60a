"""A fit against the exact optimum of the same objective, and data that leave little to fit."""

from dataclasses import replace

import numpy as np
import pytest

from dkernel.data.collections.arrays import from_arrays
from dkernel.errors import DataError, DKernelError, RecipeError
from dkernel.model.recipe import Recipe
from dkernel.solvers.preconditioner import Preconditioner
from dkernel.solvers.sgd import PSGDSolver
from dkernel.streaming.execution.local import SerialExecutor, ThreadsExecutor
from dkernel.training.ask import with_solver
from dkernel.training.fit import train
from tests.reference import optimum
from tests.streaming.sources import rings, source_of, waves

RECIPE = Recipe(
    solver="psgd",
    n_components=150,
    kernel="Gaussian(gamma=0.15)",
    scale="standard",
    alpha=1e-6,
    polish=0,
)
FOURIER = RECIPE.replace(features="fourier", n_components=300)
MAPS = {"nystrom": RECIPE, "fourier": FOURIER}
N, N_NEW = 5000, 2000


@pytest.fixture(scope="module")
def two_classes():
    return rings(N), rings(N_NEW, seed=1)


def fit(X, y, recipe, **more):
    return train(from_arrays(X, y, **more), recipe, ThreadsExecutor(2)).model


def error(model, X, y):
    return float(np.mean(model.predict(X) != y))


def exact_scores(model, X, Y, X_new, weight=None):
    """Of the converged optimum on the model's own features, at new rows."""
    scaled = model.scaling.apply(X)
    w, b = optimum(model.map(scaled), Y, model.recipe.loss, float(model.recipe.alpha), weight)
    return model.map(model.scaling.apply(X_new)) @ w + b


def each_once(losses):
    """By default each loss with one of the maps, in turn; with the others it is slow."""
    for i, loss in enumerate(losses):
        for j, features in enumerate(MAPS):
            yield pytest.param(loss, features, marks=() if i % len(MAPS) == j else pytest.mark.slow)


@pytest.mark.parametrize(("loss", "features"), list(each_once(["squared_hinge", "hinge", "logistic", "squared"])))
def test_one_pass_is_near_the_converged_optimum(two_classes, features, loss):
    (X, y), (X_new, y_new) = two_classes
    model = fit(X, y, MAPS[features].replace(loss=loss, task="classify"))
    if loss == "hinge":  # no gradient method finds its kinks' exact optimum in reasonable time
        model = replace(model, recipe=model.recipe.replace(loss="squared_hinge"))
    converged = exact_scores(model, X, (2.0 * y - 1)[:, None], X_new)[:, 0]
    best = float(np.mean((converged > 0) != y_new))
    assert error(model, X_new, y_new) <= best + 0.015


SLOWER = [pytest.param(loss, marks=pytest.mark.slow) for loss in ("logistic", "squared")]


@pytest.mark.parametrize("loss", ["squared_hinge", *SLOWER])
def test_several_passes_come_nearer(loss):
    (X, y), (X_new, _) = rings(2 * N), rings(N_NEW, seed=1)
    recipe = RECIPE.replace(loss=loss, task="classify", holdout=0.0)
    one, four = fit(X, y, recipe), fit(X, y, recipe.replace(passes=4))
    converged = exact_scores(four, X, (2.0 * y - 1)[:, None], X_new)
    spread = converged.std()
    assert np.sqrt(np.mean((four.scores(X_new) - converged) ** 2)) <= 0.1 * spread
    assert np.sqrt(np.mean((one.scores(X_new) - converged) ** 2)) <= 0.2 * spread


def test_a_regression():
    X, y = waves(N)
    X_new, y_new = waves(N_NEW, seed=1)
    model = fit(X, y, RECIPE.replace(loss="squared", n_components=300))
    assert model.classes is None
    converged = exact_scores(model, X, y[:, None], X_new)[:, 0]
    best = np.sqrt(np.mean((converged - y_new) ** 2))
    found = np.sqrt(np.mean((model.predict(X_new) - y_new) ** 2))
    assert found <= 1.05 * best < 0.35 * y_new.std()


def test_three_classes():
    X, y = rings(N, classes=3)
    X_new, y_new = rings(N_NEW, seed=1, classes=3)
    names = np.array(["inner", "middle", "outer"])
    model = fit(X, names[y], RECIPE.replace(n_components=100))
    assert model.classes.tolist() == names.tolist()
    converged = exact_scores(model, X, 2.0 * np.eye(3)[y] - 1, X_new)
    best = float(np.mean(converged.argmax(axis=1) != y_new))
    assert error(model, X_new, names[y_new]) <= best + 0.015


def test_the_average_is_not_worse_than_the_last_iterate(two_classes, monkeypatch):
    (X, y), (X_new, y_new) = two_classes
    choose, found = PSGDSolver._choose, {}
    for only in ("average", "last"):

        def chosen(passes, candidates, name, found, only=only):
            return choose(passes, {only: candidates.get(only, candidates.get("start"))}, name, found)

        monkeypatch.setattr(PSGDSolver, "_choose", chosen)
        model = fit(X, y, RECIPE.replace(holdout=0.0))
        found[only] = float(np.mean(np.maximum(1 - (2 * y_new - 1) * model.scores(X_new)[:, 0], 0) ** 2))
    assert found["average"] <= found["last"]


def test_weights_count_as_copies_of_rows():
    """A weight of 2 on some rows has the optimum of these rows standing twice."""
    X, y = rings(2 * N)
    X_new, _ = rings(N_NEW, seed=1)
    weight = np.where(X[:, 0] > 0, 3.0, 0.2)
    model = fit(X, y, RECIPE.replace(n_components=100, holdout=0.0, passes=8), weight=weight)
    Y = (2.0 * y - 1)[:, None]
    weighted, plain = exact_scores(model, X, Y, X_new, weight), exact_scores(model, X, Y, X_new)
    off = np.sqrt(np.mean((model.scores(X_new) - weighted) ** 2))
    assert off <= 0.12 * weighted.std()
    assert off < 0.7 * np.sqrt(np.mean((model.scores(X_new) - plain) ** 2))


def test_balanced_classes_find_the_rare_one():
    X, y = rings(N, noise=0.3)
    rare = (y == 0) | (np.random.default_rng(0).random(len(y)) < 0.04)
    X, y = X[rare], y[rare]
    X_new, y_new = rings(N_NEW, seed=1)
    recall = {}
    for class_weight in (None, "balanced"):
        model = fit(X, y, RECIPE.replace(class_weight=class_weight))
        recall[class_weight] = float(np.mean(model.predict(X_new)[y_new == 1] == 1))
    assert recall["balanced"] > recall[None] + 0.1


def test_everything_left_open_is_chosen_and_written_down(two_classes):
    (X, y), (X_new, y_new) = two_classes
    source = from_arrays(X[:4000], y[:4000])
    result = train(source, Recipe(solver="psgd", n_components=200), ThreadsExecutor(2))
    recipe = result.model.recipe
    assert error(result.model, X_new, y_new) < 0.12
    assert recipe.task == "classify"
    assert recipe.features == "nystrom"
    assert recipe.scale in ("standard", "global")
    assert recipe.kernel.startswith("Gaussian(gamma=0.")
    assert isinstance(recipe.alpha, float)
    assert {"gamma", "alpha"} <= set(result.chosen)
    assert result.model.facts["rows"] == 4000
    assert result.model.facts["holdout"]["rows"] == 200
    assert any("round" in line for line in result.history)
    assert any("holdout" in line for line in result.history)
    assert {"rounds", "worker_bytes"} <= set(result.plan)


def test_the_progressive_loss_is_of_rows_not_seen_yet(two_classes):
    (X, y), _ = two_classes
    history = train(from_arrays(X, y), RECIPE, SerialExecutor()).history
    end = next(i for i, line in enumerate(history) if line.get("holdout") == "pass-0-0")
    holdout, rounds = history[end], [line for line in history[:end] if "round" in line]
    assert [line["round"] for line in rounds] == list(range(1, len(rounds) + 1))
    assert sum(line["rows"] for line in rounds) == N - N // 20
    assert abs(np.mean([line["accuracy"] for line in rounds[-16:]]) - holdout["accuracy"]) < 0.03


@pytest.mark.parametrize("n", [2, 3, 4, 5, 7, 11, 20])
@pytest.mark.parametrize("features", MAPS)
@pytest.mark.parametrize("holdout", [0.0, 0.05])
def test_a_handful_of_rows(n, features, holdout):
    X, _ = rings(n)
    y = np.arange(n) % 2
    model = fit(X, y, MAPS[features].replace(holdout=holdout, n_components=64))
    assert np.isfinite(model.coef).all()
    assert np.isfinite(model.scores(X)).all()


def test_a_handful_of_rows_with_everything_open():
    X, y = rings(12)
    y[:2] = 0, 1
    assert np.isfinite(fit(X, y, Recipe(solver="psgd")).scores(X)).all()


def test_one_row_and_no_label_are_refused():
    X, y = rings(10)
    with pytest.raises(DataError, match="at least two"):
        fit(X[:1], y[:1], RECIPE)
    with pytest.raises(DKernelError, match="label"):
        train(from_arrays(X), RECIPE, SerialExecutor())


def test_a_floating_label_needs_a_regression_loss():
    X, y = waves(100)
    with pytest.raises(RecipeError, match="loss='squared'"):
        fit(X, y, RECIPE)


def test_only_constant_columns():
    model = fit(np.ones((200, 3)), np.arange(200) % 4 == 0, RECIPE)
    assert (model.predict(np.ones((5, 3))) == [False] * 5).all()


def test_every_row_many_times():
    X, y = rings(40)
    X, y = np.repeat(X, 50, axis=0), np.repeat(y, 50)
    order = np.random.default_rng(0).permutation(len(X))
    model = fit(X[order], y[order], RECIPE)
    assert error(model, X, y) <= 0.05


@pytest.mark.parametrize("features", MAPS)
@pytest.mark.parametrize("loss", ["squared_hinge", "hinge", "logistic"])
def test_without_a_penalty(features, loss):
    X, y = rings(5000)
    model = fit(X, y, MAPS[features].replace(alpha=0.0, loss=loss))
    assert np.isfinite(model.coef).all()
    assert model.recipe.alpha == 0
    assert error(model, X, y) < 0.12


def test_a_strong_penalty_leaves_the_larger_class():
    X, y = rings(5000)
    keep = (y == 1) | (np.arange(5000) % 3 == 0)
    model = fit(X[keep], y[keep], RECIPE.replace(alpha=1e4))
    assert (model.predict(X) == 1).all()


@pytest.mark.parametrize("holdout", [0.0, 0.05])
def test_a_pass_that_diverges_leaves_the_start(holdout, monkeypatch):
    X, y = rings(3000)
    step = Preconditioner.step
    monkeypatch.setattr(Preconditioner, "step", lambda self, batch, loss: step(self, batch, loss) * scale[0])
    start, scale = PSGDSolver.start, [1.0]

    def diverge(passes):
        scale[0] = 1e200
        return start(passes)

    monkeypatch.setattr(PSGDSolver, "start", diverge)
    with np.errstate(all="ignore"):
        model = fit(X, y, RECIPE.replace(holdout=holdout, passes=2, loss="squared", task="classify"))
    assert np.isfinite(model.coef).all()
    assert model.facts["iterate"] == "start"
    assert error(model, X, y) < 0.15


def test_rounds_that_hold_nothing_but_the_holdout_do_not_pull_to_zero():
    """Interleaved rounds of a few rows each: some have none outside the holdout."""
    X, y = rings(520)
    order = np.argsort(y, kind="stable")
    source = source_of(X[order], y[order], [(260,), (260,)])  # fewer rows would be joined to one unit
    recipe = RECIPE.replace(holdout=0.5, rounds=260)
    result = train(source, recipe, SerialExecutor())
    assert "interleaved" in result.chosen["order"]
    assert any(line["rows"] == 0 for line in result.history if "round" in line)
    assert error(result.model, X, y) < 0.25


@pytest.mark.parametrize(("n", "p", "solver"), [(2900, 5, "exact"), (3500, 5, "psgd"), (3500, 1500, "exact")])
def test_few_rows_are_solved_exactly_where_no_stage_races(n, p, solver):
    source = from_arrays(np.zeros((n, p), np.float32), np.zeros(n))
    assert with_solver(Recipe(task="regress"), source).solver == solver
