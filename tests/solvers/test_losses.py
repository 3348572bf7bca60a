"""Every loss through a whole fit, against the exact minimizer of the same objective on the model's own features."""

import numpy as np
import pytest
import scipy.optimize
from sklearn.linear_model import LogisticRegression, QuantileRegressor

from dkernel import KernelRegressor
from dkernel.data.collections.arrays import from_arrays
from dkernel.errors import UnsupportedError
from dkernel.inference.evaluate import evaluate_model
from dkernel.leaves.tuning.search import tune
from dkernel.leaves.tuning.successive_halving import MixedLoss
from dkernel.losses.losses import parse_loss, signs
from dkernel.model import model_file
from dkernel.model.recipe import Recipe
from dkernel.streaming.execution.local import SerialExecutor
from dkernel.training.fit import train
from tests.combinations import every_two
from tests.streaming.sources import rings, waves

RECIPE = Recipe(
    solver="psgd", n_components=40, kernel="Gaussian(gamma=0.15)", scale="standard", alpha=1e-6, holdout=0.0
)
NUMBERS = ["huber(0.3)", "epsilon_insensitive(0.2)", "quantile(0.9)", "quantile"]
CLASSES = ["softmax", "perceptron"]


def fit(X, y, executor=None, **changes):
    return train(from_arrays(X, y), RECIPE.replace(**changes), executor or SerialExecutor()).model


def features(model, X):
    return model.map(model.scaling.apply(X))


def least(F, T, loss):
    """The smallest mean loss of any linear function of F: from the least squares, on the orthonormal basis of F."""
    U = np.linalg.svd(np.c_[F, np.ones(len(F))], full_matrices=False)[0] * np.sqrt(len(F))

    def both(x):
        return loss.value(T, U @ x).mean(), U.T @ loss.derivative(T, U @ x) / len(T)

    x = U.T @ T / len(F)
    for _ in range(3):  # a kink may stop it: a fresh start goes on
        x = scipy.optimize.minimize(both, x, jac=True, method="L-BFGS-B", options={"maxiter": 1000}).x
    return both(x)[0]


@pytest.mark.parametrize("name", NUMBERS)
def test_a_regression_is_near_the_exact_minimum(name, tmp_path):
    X, y = waves(4000)
    model = fit(X, y, loss=name)
    assert (model.task, model.recipe.loss, model.classes) == ("regress", name, None)
    loss, T = parse_loss(name), (y - y.mean()) / y.std()
    found = loss.value(T, (model.scores(X)[:, 0].astype(float) - y.mean()) / y.std()).mean()
    assert found <= 1.015 * least(features(model, X), T, loss)
    model_file.save(model, tmp_path / "m")
    again = model_file.load_model(tmp_path / "m")
    assert again.loss == loss
    assert again.predict(X[:50]).tobytes() == model.predict(X[:50]).tobytes()


@pytest.mark.parametrize("q", [0.1, 0.9])
def test_a_quantile_is_that_of_scikit_learn_on_the_same_features(q):
    X, y = waves(3000)
    model = fit(X, y, loss=f"quantile({q})", passes=8, n_components=12)
    F = features(model, X)
    exact = QuantileRegressor(quantile=q, alpha=0.0, solver="highs").fit(F, y)
    loss = parse_loss(f"quantile({q})")
    ours, theirs = (loss.value(y, s).mean() for s in (model.predict(X).astype(float), exact.predict(F)))
    assert theirs <= ours <= 1.02 * theirs
    assert np.mean(y < model.predict(X)) == pytest.approx(q, abs=0.03)


def spoil(y):
    return np.where(np.arange(len(y)) % 20 == 0, y + 500.0, y)


@pytest.mark.parametrize(
    ("loss", "solver"),
    every_two(["huber", "epsilon_insensitive", "quantile"], ["exact", "psgd", "partial_fit"]),
)
def test_far_rows_do_not_widen_the_unit_of_a_robust_loss(loss, solver):
    """The unit is that of most rows, by whatever door they come in and in any unit of the label."""
    X, y = waves(3000)
    settings = {"gamma": 0.3, "alpha": 1e-4, "n_components": 100, "loss": loss, "scale": "standard"}

    def error(spoilt, unit=1.0):
        machine = KernelRegressor("gaussian", solver=solver.replace("partial_fit", "psgd"), **settings)
        (machine.partial_fit if solver == "partial_fit" else machine.fit)(X, unit * (spoil(y) if spoilt else y))
        return np.sqrt(np.mean((machine.predict(X) / unit - y) ** 2))

    spoilt = error(True)
    assert spoilt < 1.1 * error(False)
    assert error(True, 2.0**30) == pytest.approx(spoilt, rel=1e-3)


@pytest.mark.parametrize(
    "loss",
    ["huber(0.2)", *(pytest.param(loss, marks=pytest.mark.slow) for loss in ("epsilon_insensitive", "quantile"))],
)
def test_far_rows_do_not_choose_the_kernel_of_a_robust_loss(loss):
    """Candidates are fitted by squares: for half of the seeds far rows had left them no kernel but a flat one."""
    for seed in (0, 4):
        rng = np.random.default_rng(seed)
        X = rng.uniform(-3, 3, (2000, 1))
        wave, far = np.sin(2 * X[:, 0]), rng.uniform(0, 50, 2000) * (rng.random(2000) < 0.05)
        machine = KernelRegressor(loss=loss, local="none", random_state=0)
        machine.fit(X, wave + 0.1 * rng.normal(size=2000) + far)
        assert np.sqrt(np.mean((machine.predict(X) - wave) ** 2)) < 0.08


def test_softmax_is_that_of_scikit_learn_on_the_same_features():
    X, y = rings(4000, classes=3)
    names = np.array(["inner", "middle", "outer"])[y]
    model = fit(X, names, loss="softmax", alpha=1e-4, passes=4)
    F = features(model, X)
    exact = LogisticRegression(C=1 / (len(X) * 1e-4), tol=1e-8, max_iter=5000).fit(F, names)
    ours, theirs = model.probabilities(model.scores(X)), exact.predict_proba(F)
    np.testing.assert_allclose(ours.sum(axis=1), 1.0, atol=1e-12)
    assert np.abs(ours - theirs).mean() < 0.01
    assert np.mean(model.predict(X) != exact.predict(F)) < 0.02
    figures = evaluate_model(model, from_arrays(X, names), SerialExecutor())
    assert figures["log_loss"] == pytest.approx(-np.log(ours[np.arange(len(X)), y]).mean(), rel=1e-5)
    one_vs_rest = fit(X, names, loss="logistic", alpha=1e-4, passes=4)
    assert figures["log_loss"] <= evaluate_model(one_vs_rest, from_arrays(X, names), SerialExecutor())["log_loss"]


def test_softmax_of_two_classes_is_the_logistic_fit():
    X, y = rings(1500)
    soft, logistic = fit(X, y, loss="softmax"), fit(X, y, loss="logistic")
    assert soft.coef.tobytes() == logistic.coef.tobytes()
    assert soft.probabilities(soft.scores(X)).tobytes() == logistic.probabilities(logistic.scores(X)).tobytes()


@pytest.mark.parametrize("classes", [2, 3])
def test_a_perceptron_is_nearly_as_good_as_a_support_vector_machine(classes):
    X, y = rings(6000, classes=classes)
    X_new, y_new = rings(3000, seed=1, classes=classes)
    wrong = {
        loss: np.mean(fit(X, y, loss=loss, passes=2, holdout=0.1).predict(X_new) != y_new)
        for loss in ("hinge", "perceptron")
    }
    assert wrong["perceptron"] <= wrong["hinge"] + 0.03


def test_a_perceptron_separates_what_can_be_separated():
    X, y = rings(2000, noise=0.0)
    far = np.abs((X[:, :3].astype(float) ** 2).sum(axis=1) + 0.7 * X[:, 3] - 2.4) > 1.2
    model = fit(X[far], y[far], loss="perceptron", n_components=200, alpha=1e-9, passes=8)
    assert np.mean(model.predict(X[far]) != y[far]) < 0.005


def test_probabilities_are_refused_where_there_are_none():
    X, y = rings(300)
    model = fit(X, y, loss="perceptron")
    assert not model.has_probabilities
    with pytest.raises(UnsupportedError, match="Train with loss='logistic' or 'softmax'"):
        model.probabilities(model.scores(X))


def test_losses_beside_each_other_see_their_own_paths():
    rng = np.random.default_rng(0)
    Y, S = np.tile(signs(rng.integers(3, size=5), 3)[:, None], (1, 3, 1)), rng.normal(size=(5, 3, 3))
    soft, hinge = parse_loss("softmax"), parse_loss("hinge")
    mixed = MixedLoss(((soft, 2), (hinge, 1)))
    for of in ("value", "derivative"):
        wanted = [getattr(soft, of)(Y[:, :2], S[:, :2]), getattr(hinge, of)(Y[:, 2:], S[:, 2:])]
        assert np.array_equal(getattr(mixed, of)(Y, S), np.concatenate(wanted, axis=1))


def test_a_search_over_losses_of_many_classes():
    X, y = rings(1500, classes=3)
    recipe = RECIPE.replace(holdout=0.2)
    found = tune(
        from_arrays(X, y), recipe, SerialExecutor(), grid={"loss": ["softmax", "hinge"], "alpha": [1e-6, 1e-4]}
    )
    alone = fit(X, y, loss=found.recipe.loss, holdout=0.2)
    assert len(found.leaderboard) == 4
    assert np.mean(found.fit.model.predict(X) != y) <= np.mean(alone.predict(X) != y) + 0.03
