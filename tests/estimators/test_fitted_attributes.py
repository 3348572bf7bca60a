"""What people look for on a fitted estimator: alpha_, kernel_, n_iter_, feature weights, and a word while it fits."""

import numpy as np
import pandas as pd
import pytest
from sklearn.svm import SVC, SVR

import dkernel
from dkernel import Gaussian, KernelClassifier, KernelRegressor, Tuner

RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.normal(size=(400, 3)), columns=["left", "right", "noise"])
Y = (X["left"] * X["right"] > 0).to_numpy()


@pytest.fixture(scope="module")
def machine():
    return KernelClassifier("gaussian", gamma=0.5, alpha=1e-4, n_components=32).fit(X, Y)


def test_the_choices_are_attributes(machine):
    assert machine.kernel_ == Gaussian(gamma=0.5)
    assert machine.alpha_ == 1e-4
    assert machine.n_iter_ >= 1


@pytest.mark.parametrize(
    ("settings", "made"),
    [
        ({"passes": 3}, 3),
        ({"passes": 12, "callbacks": [bool]}, 1),
        ({"passes": 12, "callbacks": [lambda line: line.get("pass") == 2]}, 2),
        ({"passes": 12, "callbacks": [lambda line: line.get("pass") == 2], "polish": 3}, None),
        ({"solver": "exact"}, 1),
    ],
)
def test_iterations_are_the_passes_that_were_made(settings, made, tmp_path):
    machine = KernelClassifier(**({"kernel": "gaussian", "gamma": 0.5, "alpha": 1e-4, "n_components": 32} | settings))
    machine.set_params(loss="logistic").fit(X, Y)
    passes = made or len({(line["pass"], "decrement" in line) for line in machine.history_ if "round" in line})
    assert machine.n_iter_ == passes < 40
    dkernel.save(machine, tmp_path / "m")
    assert dkernel.load(tmp_path / "m").n_iter_ == passes


def test_feature_weights_have_names(machine):
    assert machine.feature_weights_ is None  # no metric was learned
    learned = KernelClassifier("gaussian", metric="diagonal", n_components=64).fit(X, Y).feature_weights_
    assert list(learned.index) == list(X.columns)
    assert learned.sum() == pytest.approx(1)
    assert learned.idxmin() == "noise"


def test_the_norm_is_that_of_the_function_in_the_space_of_the_kernel():
    X, Y = twin_data()
    machine = KernelRegressor(Gaussian(gamma=0.3), alpha=1e-3, solver="exact", scale="none").fit(X, Y)
    K, a = machine.kernel_(X, X), machine.dual_coef_[0]
    assert machine.norm_ == pytest.approx(np.sqrt(a @ K[np.ix_(machine.support_, machine.support_)] @ a), rel=1e-5)
    # A smaller ball is a stiffer function: |f|_H falls as alpha grows.
    settings = {"kernel": Gaussian(gamma=0.3), "scale": "none", "n_components": 40}
    norms = [KernelRegressor(**settings, alpha=alpha).fit(X, Y).norm_ for alpha in (1e-6, 1e-3, 1e-1, 10.0)]
    assert norms == sorted(norms, reverse=True)
    assert norms[0] > 2 * norms[-1]
    # Of random features it is |w|; of several outputs there is one each.
    waves = KernelClassifier(Gaussian(gamma=0.3), features="fourier", n_components=64, alpha=1e-3, solver="lbfgs")
    waves.fit(X, np.digitize(Y, [-0.5, 0.5]))
    np.testing.assert_allclose(
        waves.norm_, np.linalg.norm(waves.component_coef_ * waves.model_.map.whitening**-1, axis=1)
    )


def twin_data():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(150, 2))
    return X, np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=150)


@pytest.mark.parametrize("C", [1.0, 10.0])
def test_support_vectors_and_coefficients_are_those_of_libsvm(C):
    X, Y = twin_data()
    y = np.where(Y > 0, "up", "down")
    machine = KernelClassifier(Gaussian(gamma=0.3), loss="hinge", alpha=f"C={C}", solver="exact", scale="none")
    machine.fit(X, y)
    twin = SVC(C=C, gamma=0.3, tol=1e-7).fit(X, y)
    np.testing.assert_array_equal(machine.support_, np.sort(twin.support_))
    np.testing.assert_allclose(machine.support_vectors_, X[machine.support_], rtol=1e-6)
    order = np.argsort(twin.support_)
    np.testing.assert_allclose(machine.dual_coef_, twin.dual_coef_[:, order], atol=2e-3 * C)
    votes = machine.kernel_(X, machine.support_vectors_) @ machine.dual_coef_[0] + machine.intercept_[0]
    np.testing.assert_allclose(machine.decision_function(X), votes, atol=1e-4)


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_rows_within_epsilon_support_nothing_as_in_libsvm(unit):
    X, y = twin_data()
    assert not len(SVR(gamma=0.3, epsilon=3.0).fit(X, y).support_)
    loss = f"epsilon_insensitive({3.0 / np.std(y)})"
    machine = KernelRegressor(Gaussian(gamma=0.3), loss=loss, solver="exact", scale="none").fit(X, unit * y)
    assert machine.support_vectors_.shape == (0, 2)
    assert machine.dual_coef_.shape == (1, 0)


def test_support_vectors_of_scaled_rows_and_copies_are_the_rows():
    X, Y = twin_data()
    twice = np.concatenate([X, X]) * [100.0, 0.01] + 5.0
    machine = KernelRegressor("gaussian", gamma=0.5, alpha=1e-3, solver="exact").fit(twice, np.concatenate([Y, Y]))
    assert machine.support_.tolist() == list(range(150))  # equal rows are one, the first
    np.testing.assert_allclose(machine.support_vectors_, twice[:150], rtol=1e-6)
    machine.set_params(solver="normal", n_components=20).fit(twice, np.concatenate([Y, Y]))
    assert not hasattr(machine, "support_")


@pytest.mark.parametrize("p", [3, 150])  # the metric of more columns than a walk of components takes
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_with_a_learned_metric_every_landmark_is_a_row(p, dtype):
    X = np.random.default_rng(1).normal(size=(400, p)).astype(dtype)
    machine = KernelRegressor("gaussian", metric="full", alpha=1e-3, n_components=400, solver="exact")
    machine.fit(X, X[:, 0])
    assert len(machine.support_) > 300
    one = machine.predict(X[7:8])
    assert one.tobytes() == machine.predict(X)[7:8].tobytes()


def test_attributes_are_not_there_before_a_fit():
    unfitted = KernelRegressor()
    for name in ("kernel_", "alpha_", "n_iter_", "feature_weights_", "norm_"):
        assert not hasattr(unfitted, name)


def test_a_fit_is_silent_unless_asked(capsys):
    quiet = KernelClassifier("gaussian", gamma=0.5, n_components=32, solver="psgd").fit(X, Y)
    assert capsys.readouterr() == ("", "")
    loud = KernelClassifier("gaussian", gamma=0.5, n_components=32, solver="psgd", verbose=True).fit(X, Y)
    said = capsys.readouterr()
    assert said.out == ""
    assert "pass 1/" in said.err
    assert (loud.component_coef_ == quiet.component_coef_).all()


def test_a_search_has_the_results_of_a_search():
    machine = KernelClassifier("gaussian", metric="identity", n_components=32)
    tuner = Tuner(machine, {"gamma": [1e-3, 0.5], "alpha": [1e-6, 1e-4]}).fit(X, Y)
    results = pd.DataFrame(tuner.cv_results_)
    assert len(results) == len(tuner.leaderboard_)
    assert {"params", "param_gamma", "param_alpha", "mean_test_score", "rank_test_score"} <= set(results)
    assert tuner.best_score_ == results["mean_test_score"][tuner.best_index_] == results["mean_test_score"].max()
    assert results["rank_test_score"][tuner.best_index_] == 1


def test_a_model_shows_itself_in_a_line_and_in_a_table(machine):
    assert repr(machine.model_) == (
        "<Model: classifier of 2 classes of 'label', 3 features, Gaussian(gamma=0.5), 32 components>"
    )
    html = machine.model_._repr_html_()
    assert "<th>kernel</th><td>Gaussian(gamma=0.5)</td>" in html
    assert "32 components" in html
    assert "kernelclassifier" in machine._repr_html_().lower()
