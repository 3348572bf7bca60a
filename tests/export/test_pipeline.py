"""to_sklearn: a Pipeline that predicts the same, of scikit-learn's parts alone."""

import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

import dkernel
from dkernel import KernelClassifier, KernelRegressor
from dkernel.errors import ModelFileError, UnsupportedError
from tests.export.models import NYSTROM, RANDOM, classifier, height, regressor, rows, wide_scores

X = rows(2000, seed=1)


def same(machine):
    """The pipeline, after it has been seen to score as the machine does."""
    pipeline = machine.to_sklearn()
    S = wide_scores(machine.model_, X)
    S = S[:, 0] if S.shape[1] == 1 else S
    own = pipeline.decision_function(X) if hasattr(machine, "classes_") else pipeline.predict(X)
    # StandardScaler keeps float32 rows in float32; all the rest is in float64.
    np.testing.assert_allclose(own, S, rtol=0, atol=2e-5 * np.abs(S).max())
    return pipeline


@pytest.mark.parametrize("kernel", NYSTROM.values(), ids=NYSTROM)
def test_nystrom_models(kernel):
    machine = classifier("two", loss="squared_hinge", kernel=kernel, features="nystrom")
    pipeline = same(machine)
    # Of polynomials at landmarks dkernel's own float32 columns are the worse ones: the definition says who is right.
    S = wide_scores(machine.model_, X)[:, 0]
    sure = np.abs(S) > 1e-4 * np.abs(S).max()
    np.testing.assert_array_equal(pipeline.predict(X)[sure], S[sure] > 0)


@pytest.mark.parametrize("settings", RANDOM.values(), ids=RANDOM)
def test_random_and_exact_models(settings):
    same(classifier("two", loss="hinge", **settings))


def test_odd_numbers_of_fourier_columns_have_offsets():
    recipe = classifier("two", kernel="Gaussian(gamma=0.3)", features="fourier").model_.recipe
    from dkernel.data import from_arrays
    from dkernel.execution.connect import default_executor
    from dkernel.training.fit import train

    with default_executor() as executor:
        recipe = recipe.replace(form="offset", n_components=63)
        model = train(from_arrays(rows(600), height(rows(600)) > 0), recipe, executor).model
    own = dkernel.to_sklearn(model).decision_function(X)
    np.testing.assert_allclose(own, wide_scores(model, X)[:, 0], atol=2e-5 * np.abs(own).max())


@pytest.mark.parametrize("loss", ["logistic", "softmax"])
@pytest.mark.parametrize("which", ["two", "numbers", "texts"])
def test_classes_and_probabilities(which, loss):
    machine = classifier(which, loss=loss, kernel="Gaussian(gamma=0.3)")
    pipeline = same(machine)
    assert pipeline.classes_.tolist() == machine.classes_.tolist()
    np.testing.assert_allclose(pipeline.predict_proba(X), machine.predict_proba(X), atol=1e-4)
    assert np.mean(pipeline.predict(X) == machine.predict(X)) > 0.999
    assert pipeline.score(X, machine.predict(X)) > 0.999


def test_a_regression():
    same(regressor(kernel="Gaussian(gamma=0.3)"))


def test_a_learned_metric_leaves_as_a_linear_map():
    machine = regressor(kernel="Gaussian(gamma=0.3)")
    from dataclasses import replace

    R = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0] * [2.0, 1.0, 0.5]
    turned = replace(machine.model_, scaling=replace(machine.model_.scaling, rotation=R))
    pipeline = dkernel.to_sklearn(turned)
    assert [name for name, _ in pipeline.steps] == ["scale", "metric", "features", "linear"]
    np.testing.assert_allclose(pipeline.predict(X), wide_scores(turned, X)[:, 0], atol=1e-4)


def test_it_is_a_fitted_pipeline_that_knows_its_columns():
    table = pd.DataFrame(rows(300), columns=["a", "b", "c"])
    machine = KernelClassifier("Gaussian(gamma=0.3)", n_components=16, alpha=1e-3).fit(table, height(table.values) > 0)
    pipeline = machine.to_sklearn()
    assert isinstance(pipeline, Pipeline)
    check_is_fitted(pipeline)
    assert pipeline.feature_names_in_.tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(pipeline.predict(table), machine.predict(table))
    with pytest.raises(ValueError, match="feature names"):
        pipeline.predict(table[["c", "b", "a"]])


def test_it_needs_neither_dkernel_nor_dask(tmp_path):
    pipeline = same(classifier("texts", kernel="Gaussian(gamma=0.3)"))
    assert "dkernel" not in str(pickle.dumps(pipeline))
    (tmp_path / "pipeline.pkl").write_bytes(pickle.dumps(pipeline))
    np.save(tmp_path / "X.npy", X)
    code = """
import pickle, sys, numpy as np
sys.modules["dkernel"] = sys.modules["dask"] = None
print(*pickle.load(open("pipeline.pkl", "rb")).predict(np.load("X.npy")))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert done.stdout.split() == pipeline.predict(X).tolist()


@pytest.mark.parametrize(
    "settings",
    [{"kernel": "ArcCosine()"}, {"kernel": "Gaussian(gamma=0.3).on([0])"}, {"kernel": "Polynomial(degree=2)",
     "features": "tensorsketch"}],
    ids=str,
)  # fmt: skip
def test_what_cannot_leave_says_what_can(settings):
    with pytest.raises(UnsupportedError, match=r"no counterpart in scikit-learn.*Laplacian"):
        classifier("two", **{"features": "nystrom", **settings}).to_sklearn()


def test_what_is_no_model_is_refused():
    with pytest.raises(ModelFileError, match="A str cannot be exported"):
        dkernel.to_sklearn("model.safetensors")


def test_a_calibration_stays_behind():
    machine = classifier("texts", loss="logistic", kernel="Gaussian(gamma=0.3)", calibration="platt")
    pipeline = machine.to_sklearn()
    X = rows(500, seed=1)
    assert (pipeline.predict(X) == machine.predict(X)).mean() > 0.99
    assert not hasattr(pipeline, "predict_proba")  # that of the scores would not be the calibrated one


def test_a_column_far_from_zero_is_scaled_by_the_same_numbers():
    """The float32 shift of a year is off by 1e-4 of its deviation, and a sharp kernel sees that."""
    rng = np.random.default_rng(0)
    years = rng.integers(2019, 2024, 500).astype(np.float32)
    X = np.column_stack([years, rng.normal(size=500)]).astype(np.float32)
    machine = KernelRegressor("gaussian", gamma=20.0, n_components=100, local="none").fit(
        X, np.sin(3 * years) + X[:, 1]
    )
    own = machine.predict(X)
    np.testing.assert_allclose(machine.to_sklearn().predict(X), own, rtol=0, atol=2e-6 * np.abs(own).max())
