"""scikit-learn's own checks of an estimator, and its tools around ours."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from dkernel import (
    BinningFeatures,
    FourierFeatures,
    KernelCCA,
    KernelClassifier,
    KernelFeatures,
    KernelKMeans,
    KernelPCA,
    KernelPerceptron,
    KernelRegressor,
    NystromFeatures,
    OneClassSVM,
    SpectralClustering,
    Tuner,
)
from tests.estimators.data import ESTIMATORS as KINDS
from tests.estimators.data import SMALL, ball, wave

QUICK = {"kernel": "gaussian", "metric": "identity", "gamma": 0.1, "n_components": 32, "alpha": 1e-3}
ESTIMATORS = [
    KernelClassifier(**QUICK),
    KernelRegressor(**QUICK),
    BinningFeatures(n_grids=8, n_bins=64),
    FourierFeatures(n_components=32),
    NystromFeatures(n_components=32),
    KernelFeatures(n_components=32),
    KernelFeatures("polynomial", features="maclaurin", n_components=32),
    KernelFeatures("polynomial", features="tensorsketch", n_components=32),
    KernelPCA(n_components=4, n_map_components=32),
    KernelKMeans(n_clusters=3, n_map_components=32, n_init=1),
    SpectralClustering(n_clusters=3, n_map_components=32, n_init=1),
    KernelCCA(n_components=1, n_map_components=32),
    OneClassSVM(n_components=32),
    KernelPerceptron(),
    Tuner(
        KernelClassifier("gaussian", metric="identity", n_components=16),
        {"gamma": [0.3], "alpha": [1e-3]},
    ),
]

# Most of them choose kernels and metrics in every check, which takes ten times as long.
OTHER_SETTINGS = [
    KernelClassifier(),
    KernelRegressor(),
    KernelClassifier(n_components=32, gamma=0.1, alpha=1e-3, calibration="temperature"),
    KernelFeatures(features="random", n_components=32),
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(ESTIMATORS)
def test_what_scikit_learn_expects_of_an_estimator(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(OTHER_SETTINGS)
def test_and_of_one_with_other_settings(estimator, check):
    check(estimator)


def test_every_estimator_of_the_package_is_among_them():
    assert set(KINDS) == {type(estimator) for estimator in ESTIMATORS}


@pytest.mark.parametrize("kind", KINDS)
def test_made_without_arguments_cloned_and_shown(kind):
    machine = kind()
    assert clone(machine).get_params() == machine.get_params()
    assert repr(machine) == f"{kind.__name__}()"
    with pytest.raises(TypeError, match="positional"):
        kind("gaussian", 0.5, 0.5)


def test_a_grid_of_a_pipeline():
    X, y = ball(600)
    pipeline = make_pipeline(StandardScaler(), KernelClassifier(**(SMALL | {"scale": None})))
    search = GridSearchCV(pipeline, {"kernelclassifier__gamma": [1e-4, 0.4]}, cv=2, error_score="raise").fit(X, y)
    assert search.best_params_ == {"kernelclassifier__gamma": 0.4}
    assert search.best_score_ > 0.85


def test_cross_validated_regression():
    X, y = wave(900)
    scores = cross_val_score(KernelRegressor(**(SMALL | {"n_components": 200})), X, y, cv=3, error_score="raise")
    assert scores.min() > 0.9


@pytest.mark.parametrize("features", [FourierFeatures, NystromFeatures])
def test_a_transformer_before_a_linear_model(features):
    X, y = ball(1200)
    machine = make_pipeline(features(gamma=0.4, n_components=128), RidgeClassifier(alpha=1e-3)).fit(X, y)
    assert machine.score(*ball(1000, seed=1)) > 0.85


@pytest.mark.parametrize("features", [FourierFeatures, NystromFeatures])
def test_set_output_gives_named_columns(features):
    X = pd.DataFrame(ball(50)[0], columns=["a", "b", "c"])
    pipe = make_pipeline(StandardScaler(), features(gamma=0.4, n_components=4)).set_output(transform="pandas")
    out = pipe.fit_transform(X)
    assert list(out) == list(pipe.get_feature_names_out()) == [f"{features.__name__.lower()}{i}" for i in range(4)]
    assert out.index.equals(X.index)


@pytest.mark.parametrize(
    "machine",
    [
        KernelClassifier(features="fourier", **SMALL),
        FourierFeatures(n_components=8, form="exponential", sampling="structured"),
        KernelFeatures("Gaussian(gamma=0.1) + Polynomial()", features="random", n_components=40),
    ],
    ids=str,
)
def test_a_pickle_answers_the_same_of_maps_that_the_checks_lack(machine):
    X, y = ball(300)
    machine.fit(X, y)
    again = pickle.loads(pickle.dumps(machine))
    method = "transform" if hasattr(machine, "transform") else "decision_function"
    np.testing.assert_array_equal(getattr(again, method)(X), getattr(machine, method)(X))
