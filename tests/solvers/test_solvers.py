"""The solvers of the exact optimum, against dense solutions in float64 on the model's own features."""

import numpy as np
import pytest
import scipy.linalg
import scipy.stats
from sklearn.kernel_ridge import KernelRidge
from sklearn.preprocessing import KernelCenterer

from dkernel.data.collections.arrays import from_arrays
from dkernel.errors import RecipeError
from dkernel.features import NystromMap
from dkernel.model import model_file
from dkernel.model.recipe import Recipe
from dkernel.solvers.alphas import ALPHA_PATH
from dkernel.solvers.driver import Solver
from dkernel.solvers.sizes import POLISH
from dkernel.streaming.execution.local import SerialExecutor
from dkernel.training.checkpoint import Checkpoint
from dkernel.training.fit import plan, train
from tests.combinations import every_two
from tests.reference import optimum
from tests.streaming.sources import rings, source_of, waves

ALPHA = 1e-5
RECIPE = Recipe(solver="psgd",
    n_components=50, kernel="Gaussian(gamma=0.15)", scale="standard", alpha=ALPHA, loss="squared", holdout=0.0
)  # fmt: skip
UNITS = [(300, 200), (400,), (300, 1, 299)]
SQUARED = ["normal", "pcg", "lbfgs"]


def sorted_waves(n=1500):
    X, y = waves(n)
    order = np.argsort(y)
    return X[order], y[order]


def fit(source, executor=None, **changes):
    return train(source, RECIPE.replace(**changes), executor or SerialExecutor(), landmarks=None)


def features(model, X):
    return model.map(model.scaling.apply(X))


def scores(model, X):
    """In float64: the columns of the workers are float32."""
    return model.map.components(model.scaling.apply(X), "float64") @ model.coef + model.intercept


def ridge(F, T, alpha, weight=None):
    """w and b of the ridge regression, by scipy."""
    share = np.full(len(F), 1 / len(F)) if weight is None else weight / weight.sum()
    mean, level = share @ F, share @ T
    G = F - mean
    A = (G * share[:, None]).T @ G + alpha * np.eye(F.shape[1])
    w = scipy.linalg.solve(A, (G * share[:, None]).T @ (T - level), assume_a="pos")
    return w, level - mean @ w


def off(found, wanted):
    return float(np.sqrt(np.mean((found - wanted) ** 2)) / wanted.std())


@pytest.mark.parametrize(
    ("solver", "map", "dtype"), every_two(list(SQUARED), ["nystrom", "fourier"], ["float32", "float64"])
)
def test_on_sorted_data_it_is_scipys_solution(solver, map, dtype):
    X, y = sorted_waves()
    model = fit(source_of(X, y, UNITS), solver=solver, features=map, dtype=dtype).model
    F, T = features(model, X), (y - y.mean()) / y.std()
    w, b = ridge(F, T, ALPHA)
    wanted = (F @ w + b) * y.std() + y.mean()
    assert off(scores(model, X)[:, 0], wanted) <= (1e-4 if dtype == "float32" else 1e-6)
    assert off(model.predict(X), wanted) <= 1e-4


@pytest.mark.parametrize("solver", SQUARED)
def test_weights_count_as_copies_of_rows(solver):
    X, y = waves(800)
    weight = np.where(X[:, 0] > 0, 3.0, 0.25)
    model = fit(from_arrays(X, y, weight), solver=solver).model
    F = features(model, X)
    w, b = ridge(F, y, ALPHA, weight)
    assert off(scores(model, X)[:, 0], F @ w + b) <= 1e-4


@pytest.mark.parametrize("solver", SQUARED)
def test_many_targets_are_many_solutions(solver):
    X, y = rings(1200, classes=4)
    model = fit(from_arrays(X, y), solver=solver, task="classify").model
    F = features(model, X)
    for k in range(4):
        w, b = ridge(F, np.where(y == k, 1.0, -1.0), ALPHA)
        assert off(scores(model, X)[:, k], F @ w + b) <= 1e-4


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge", "huber(0.5)"])
def test_lbfgs_finds_the_optimum_of_smooth_losses(loss):
    regresses = loss.startswith("huber")
    X, y = sorted_waves() if regresses else rings(1500)
    order = np.argsort(y, kind="stable")
    X, y = X[order], y[order]
    result = fit(source_of(X, y, UNITS), solver="lbfgs", loss=loss, dtype="float64")
    model, T = result.model, 2.0 * y - 1
    assert result.model.facts["solver"]["converged"]
    F = features(model, X)
    if regresses:  # the reference knows the usual number alone, and that is a matter of units
        low, middle, high = np.quantile(y, [0.25, 0.5, 0.75], method="inverted_cdf")
        unit = 0.5 / 1.35 * (high - low) / (2 * scipy.stats.norm.ppf(0.75))
        T, ours = (y - middle) / unit, (scores(model, X) - middle) / unit
        w, b = optimum(F, T[:, None], "huber", ALPHA)
    else:
        ours = scores(model, X)
        w, b = optimum(F, T[:, None], loss, ALPHA)
    assert off(ours, F @ w + b) <= 2e-4


def test_lbfgs_finds_the_optimum_of_softmax():
    X, y = rings(1500, classes=3)
    model = fit(from_arrays(X, y), solver="lbfgs", loss="softmax", dtype="float64", alpha=1e-3).model
    F = np.c_[features(model, X), np.ones(len(X))]
    S = scores(model, X)
    P = np.exp(S - S.max(axis=1, keepdims=True))
    P /= P.sum(axis=1, keepdims=True)
    T = model.map.whitening
    W = np.concatenate([np.linalg.lstsq(T, model.coef, rcond=None)[0], model.intercept[None]])
    slope = F.T @ (P - np.eye(3)[y]) / len(X)
    slope[:-1] += 1e-3 * W[:-1]
    assert np.abs(slope).max() < 1e-6  # the gradient of the definition is zero there


def test_kernel_ridge_regression_is_that_of_scikit_learn():
    X, y = waves(300)
    recipe = RECIPE.replace(solver="normal", dtype="float64", scale="none", alpha=1e-3, n_components=300)
    model = train(from_arrays(X, y), recipe, SerialExecutor(), landmarks=X).model
    assert isinstance(model.map, NystromMap)
    K = np.exp(-0.15 * scipy.spatial.distance.cdist(X, X, "sqeuclidean"))
    centred = KernelCenterer().fit_transform(K)  # of a machine with an intercept
    exact = KernelRidge(alpha=1e-3 * len(X), kernel="precomputed").fit(centred, y - y.mean())
    assert off(scores(model, X)[:, 0], exact.predict(centred) + y.mean()) <= 1e-4
    assert off(model.predict(X), exact.predict(centred) + y.mean()) <= 1e-4


@pytest.mark.parametrize("alpha", ["auto", 1e-3])
def test_the_exact_solver_learns_from_all_rows(alpha):
    source = from_arrays(*rings(3500))
    recipe = Recipe(solver="exact", kernel="Gaussian(gamma=0.15)", features="fourier", n_components=16, alpha=alpha)
    assert train(source, recipe, SerialExecutor()).history[0]["rows"] == 3500


@pytest.mark.parametrize(
    "changes", [{"solver": "normal"}, {"solver": "pcg"}, {"solver": "lbfgs"}, {"polish": 8}], ids=[*SQUARED, "polish"]
)
def test_a_fit_that_is_stopped_goes_on_to_the_same_bytes(changes, tmp_path, monkeypatch):
    X, y = waves(1500)
    source = source_of(X, y, UNITS)
    recipe = RECIPE.replace(alpha="auto", holdout=0.1, rounds=4, **changes)
    whole = model_file.save(train(source, recipe, SerialExecutor()).model, tmp_path / "m")
    reading, calls = Solver.reduce_all, []

    def stopped(*args):
        calls.append(args)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return reading(*args)

    def finished(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Solver, "reduce_all", stopped)
        if recipe.solver == "normal":
            patch.setattr("dkernel.leaves.ridge.normal.best_of_alphas", finished)
        with pytest.raises(KeyboardInterrupt):
            train(source, recipe, SerialExecutor(), checkpoint=Checkpoint(tmp_path / "kept"))
    with monkeypatch.context() as patch:
        patch.setattr(Solver, "reduce_all", lambda *args: calls.append(args) or reading(*args))
        result = train(source, recipe, SerialExecutor(), checkpoint=Checkpoint(tmp_path / "kept"))
    assert model_file.save(result.model, tmp_path / "m") == whole
    # The reading of the normal equations is not repeated, and of the others the one that was stopped.
    wanted = 1 if recipe.solver == "normal" else result.model.facts["solver"]["passes"] + 1
    assert len(calls) == wanted


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_a_polish_comes_nearer_to_the_optimum(loss):
    X, y = rings(1500)
    off_by = []
    for polish in (0, 8):
        model = fit(from_arrays(X, y), loss=loss, task="classify", polish=polish).model
        F = features(model, X)
        w, b = optimum(F, (2.0 * y - 1)[:, None], loss, ALPHA)
        off_by.append(off(scores(model, X), F @ w + b))
    assert off_by[1] < 0.2 * off_by[0]


@pytest.mark.parametrize(("changes", "polished"), [({}, True), ({"passes": 1}, False), ({"loss": "hinge"}, False)])
def test_few_rows_are_polished_where_nothing_speaks_against_it(changes, polished):
    X, y = rings(1500)
    changes = {"task": "classify", "loss": "squared_hinge", "alpha": "auto", "holdout": 0.2, **changes}
    result = fit(from_arrays(X, y), polish="auto", **changes)
    assert result.model.recipe.polish == POLISH * polished
    assert ("solver" in result.model.facts) == polished == ("polish" in result.chosen)
    again = fit(from_arrays(X, y), **changes, polish=POLISH * polished)
    np.testing.assert_array_equal(again.model.coef, result.model.coef)


def test_the_holdout_chooses_among_converged_alphas():
    X, y = waves(1500, noise=2.0)
    result = fit(from_arrays(X, y), solver="lbfgs", alpha="auto", holdout=0.2, n_components=200)
    path = result.history[-1]["path"]
    assert len(path) == len(ALPHA_PATH)
    assert result.model.recipe.alpha == float(min(path, key=path.get)) > min(ALPHA_PATH)
    assert result.model.facts["holdout"]["loss"] == min(path.values())


def test_the_most_passes_are_those_that_are_asked_for():
    X, y = waves(500)
    result = fit(from_arrays(X, y), solver="lbfgs", passes=3)
    assert result.model.facts["solver"]["passes"] == 3
    assert not result.model.facts["solver"]["converged"]
    assert [line["pass"] for line in result.history] == [1, 2, 3]
    assert result.history[2]["loss"] <= result.history[0]["loss"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"solver": "normal", "loss": "hinge"}, "is for loss='squared' and here loss='hinge'"),
        ({"solver": "pcg", "loss": "logistic"}, "solver='lbfgs'"),
        ({"solver": "lbfgs", "loss": "hinge"}, "or loss='squared_hinge'"),
        ({"solver": "lbfgs", "loss": "quantile"}, "or loss='huber'"),
        ({"polish": 2, "loss": "perceptron"}, "polish=2 needs a loss without kinks"),
        ({"polish": 2, "solver": "normal"}, "Leave polish out"),
        ({"solver": "newton"}, "solver='newton' is not valid"),
    ],
)
def test_refuses_what_a_solver_cannot_do(changes, said):
    with pytest.raises(RecipeError) as refused:
        RECIPE.replace(**changes)
    assert said in str(refused.value)


def test_the_plan_knows_the_solver():
    X, y = waves(500)
    plans = {
        name: plan(from_arrays(X, y), RECIPE.replace(solver=name, n_components=200), SerialExecutor())
        for name in ("psgd", *SQUARED)
    }
    matrix = 8 * 200 * 200
    assert [plans[name]["passes"] for name in ("psgd", *SQUARED)] == [1 + POLISH, 1, 100, 100]
    needed = {name: found["worker_bytes"] + found["client_bytes"] for name, found in plans.items()}
    assert needed["normal"] >= needed["psgd"] + 5 * matrix  # one for each fold
    each = {name: found["stage_flops"]["solve"] / found["passes"] for name, found in plans.items()}
    assert each["normal"] > each["psgd"] + 500 * 200 * 150
    assert plan(from_arrays(X, y), RECIPE.replace(polish=3), SerialExecutor())["passes"] == 4
