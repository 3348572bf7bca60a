"""The learned metric: the moment of the gradients, what it does to the rows, and a fit that gains by it."""

from functools import cache

import numpy as np
import pytest

from dkernel.data.collections.arrays import from_arrays
from dkernel.errors import UnsupportedError
from dkernel.features import Scaling
from dkernel.kernels import Gaussian, Kernel, Laplacian, Linear, Matern
from dkernel.kernels.analysis.gradients import MOST_OUTPUTS, gradient_moment, metric_root
from dkernel.model.model import Model
from dkernel.model.model_file import load_model, save
from dkernel.model.recipe import Recipe
from dkernel.numerics.layout import Layout
from dkernel.streaming.execution.local import SerialExecutor
from dkernel.training.fit import TrainResult, train
from dkernel.training.selection.metric_learning import add_metric, check_metric, learnable_metric


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize(
    "kernel",
    [Gaussian(gamma=0.2), Laplacian(gamma=0.3), Matern(0.5, 1.5), Matern(1.5, 0.7), Matern(2.5, 1.5)],
    ids=repr,
)
def test_the_moment_is_the_sum_of_outer_products_of_finite_differences(kernel: Kernel) -> None:
    X, Z, coef = rng(1).standard_normal((7, 3)), rng(2).standard_normal((5, 3)), rng(3).standard_normal((5, 2))
    h, expected = 1e-5, np.zeros((3, 3))
    for x in X:
        steps = h * np.eye(3)
        G = (kernel(x + steps, Z) - kernel(x - steps, Z)) @ coef / (2 * h)
        expected += G @ G.T
    np.testing.assert_allclose(gradient_moment(kernel, X, Z, coef), expected, rtol=1e-4, atol=1e-8)


def test_many_outputs_are_combined_without_bias() -> None:
    X, Z = rng(1).standard_normal((6, 2)), rng(2).standard_normal((4, 2))
    coef = rng(3).standard_normal((4, 3 * MOST_OUTPUTS))
    exact = sum(gradient_moment(Gaussian(gamma=0.2), X, Z, part) for part in np.split(coef, 3, axis=1))
    drawn = np.mean([gradient_moment(Gaussian(gamma=0.2), X, Z, coef, seed) for seed in range(400)], axis=0)
    np.testing.assert_allclose(drawn, exact, rtol=0.1, atol=0.02 * np.trace(exact))


def test_the_square_root_squares_to_the_moment() -> None:
    A = rng(1).standard_normal((4, 4))
    M = A @ A.T
    root = metric_root(M, diagonal=False)
    np.testing.assert_allclose(root @ root, M / np.trace(M) * 4, atol=1e-12)
    np.testing.assert_array_equal(root, root.T)
    np.testing.assert_allclose(metric_root(M, diagonal=True) ** 2, np.diag(np.diag(M)) / np.trace(M) * 4, atol=1e-12)
    np.testing.assert_array_equal(metric_root(np.zeros((3, 3)), diagonal=False), np.eye(3))


@pytest.mark.parametrize("diagonal", [False, True])
def test_moved_rows_keep_their_mean_square_and_their_directions(diagonal: bool) -> None:
    X = (rng(1).standard_normal((50, 3)) * [1.0, 5.0, 0.1] + 2).astype(np.float32)
    base = Scaling("standard", X.mean(axis=0).astype(np.float64), 1 / X.std(axis=0).astype(np.float64))
    A = rng(2).standard_normal((3, 3))
    root = metric_root(A @ A.T, diagonal)
    scaling = add_metric(base, root, X, diagonal)
    before, after = base.apply(X, "float64"), scaling.apply(X, "float64")
    assert np.mean(after**2) == pytest.approx(np.mean(before**2), rel=1e-5)
    np.testing.assert_allclose(after, before @ root * (after[0] / (before @ root)[0])[0], rtol=1e-4, atol=1e-5)
    assert (scaling.rotation is None) == diagonal
    again = Scaling.build(scaling.spec(), scaling.arrays())
    np.testing.assert_array_equal(again.apply(X), scaling.apply(X))


@pytest.mark.parametrize(
    ("metric", "kernel", "p", "objects", "says"),
    [
        ("full", Linear(), 3, False, "not a function of"),
        ("full", Gaussian(), 600, False, "metric='diagonal'"),
        ("diagonal", Gaussian(), 3, True, "texts, lists or sets"),
        ("full", Gaussian(gamma=(1.0, 2.0)), 2, False, "a metric already"),
    ],
)
def test_what_cannot_be_learned_is_refused_first(metric: str, kernel: Kernel, p: int, objects: bool, says: str) -> None:
    columns = tuple(map(str, range(p)))
    layout = Layout(columns, objects=columns[:1] if objects else ())
    with pytest.raises(UnsupportedError, match=says):
        check_metric(metric, kernel, layout)
    check_metric("auto", kernel, layout)
    assert learnable_metric(kernel, p) == "identity" or objects


def turned(n: int, p: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """Classes that one oblique direction of many decides, by a wave."""
    X = rng(5).standard_normal((n, p)).astype(np.float32)
    w = rng(6).standard_normal(p)
    return X, np.sin(4 * (X @ w) / np.linalg.norm(w)) > 0


@cache
def fit(metric: str, **of: object) -> TrainResult:
    X, y = turned(6000)
    recipe = Recipe(kernel="gaussian", metric=metric, n_components=300, **of)  # type: ignore[arg-type]
    return train(from_arrays(X, y), recipe, SerialExecutor())


def error(model: Model) -> float:
    X, y = turned(9000)
    return float(np.mean(model.predict(X[6000:]) != y[6000:]))


def test_a_fit_with_a_learned_metric_finds_the_direction(tmp_path) -> None:  # type: ignore[no-untyped-def]
    plain, learned = fit("identity"), fit("auto")
    assert error(learned.model) < 0.5 * error(plain.model)
    assert learned.model.recipe.metric == "full"
    assert plain.model.recipe.metric == "identity"
    assert learned.chosen["metric"].startswith("full: learned (loss ")
    assert "with 300 components" in learned.chosen["metric"]
    weights = np.array(learned.model.facts["weights"])
    w = rng(6).standard_normal(8)
    assert weights.sum() == pytest.approx(1)
    assert np.argmax(weights) == np.argmax(np.abs(w))
    save(learned.model, tmp_path / "m")
    X, _ = turned(9000)
    np.testing.assert_array_equal(load_model(tmp_path / "m").scores(X[:300]), learned.model.scores(X[:300]))


def test_a_given_gamma_speaks_of_given_distances() -> None:
    assert fit("auto", gamma=0.1).model.recipe.metric == "identity"
    assert fit("full", gamma=0.1).model.recipe.metric == "full"


def test_rows_alone_and_in_a_batch_have_the_same_scores() -> None:
    model = fit("auto").model
    X, _ = turned(700)
    alone = np.concatenate([model.scores(X[i : i + 1]) for i in range(0, 700, 50)])
    np.testing.assert_array_equal(alone, model.scores(X)[::50])
