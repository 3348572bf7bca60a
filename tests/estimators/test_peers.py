"""What the suites of scikit-learn, dask-ml, LightGBM and XGBoost ask of estimators, asked of dkernel's: the twenty that
failed most, in our words."""

import warnings

import dask.array as da
import dask.dataframe as dd
import numpy as np
import onnxruntime
import pandas as pd
import pytest
import scipy.sparse as sp
from dask_ml.metrics import accuracy_score
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris, make_regression
from sklearn.frozen import FrozenEstimator
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit, cross_val_score
from sklearn.multiclass import OneVsOneClassifier

import dkernel
from dkernel import KernelClassifier, KernelKMeans, KernelPerceptron, KernelRegressor, OneClassSVM
from dkernel.errors import DKernelError

LINEAR = {"kernel": "linear", "alpha": 1e-3, "local": "none"}
rng = np.random.default_rng(0)
X = rng.normal(size=(200, 3))
SIGN, LINE = (X[:, 0] > 0).astype(int), X @ [1.0, -2.0, 0.5]


@pytest.fixture(autouse=True)
def few_rows_are_no_fault():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def test_xgboost_answers_go_back_into_the_frame():
    frame = dd.from_pandas(pd.DataFrame(X, columns=list("abc")), npartitions=3)
    machine = KernelRegressor(**LINEAR).fit(frame, frame.a)
    frame["p"] = machine.predict(frame[list("abc")])
    assert not frame.isnull().values.any().compute()
    np.testing.assert_array_equal(frame.p.compute(), machine.predict(X))


def test_dask_ml_metrics_take_lazy_labels():
    frame = dd.from_pandas(pd.DataFrame(X, columns=list("abc")).assign(y=SIGN), npartitions=2)
    machine = KernelClassifier(**LINEAR).fit(frame[list("abc")], frame.y)
    labels = machine.predict(frame[list("abc")]).to_dask_array(lengths=True)
    assert accuracy_score(frame.y.to_dask_array(lengths=True), labels) == machine.score(X, SIGN)


@pytest.mark.parametrize("kind", [KernelClassifier, KernelRegressor])
def test_dask_ml_scores_sparse_blocks(kind):
    sparse = da.from_array(X, chunks=(50, 3)).map_blocks(sp.csr_matrix)
    machine = kind(**LINEAR).fit(X, SIGN)
    assert machine.score(sparse, da.from_array(SIGN, chunks=50)) == pytest.approx(machine.score(X, SIGN))


def test_lightgbm_predicts_a_constant_target():
    targets = np.column_stack([LINE, np.full(len(X), 7.0)])
    np.testing.assert_allclose(KernelRegressor(**LINEAR).fit(X, targets).predict(X)[:, 1], 7.0)
    assert cross_val_score(KernelRegressor(**LINEAR), X, np.r_[np.zeros(60), LINE[60:]], cv=TimeSeriesSplit(3)).shape


def test_scikit_learn_streams_begin_with_one_class():
    machine = KernelClassifier(n_components=8).partial_fit(X[SIGN == 1], SIGN[SIGN == 1], classes=[0, 1])
    assert list(machine.classes_) == [0, 1]
    assert (machine.predict(X) == 1).all()
    assert machine.partial_fit(X, SIGN).score(X, SIGN) > 0.7


@pytest.mark.parametrize("wrong", [{"max_iter": 0}, {"max_iter": 1.5}, {"tol": "x"}, {"tol": -1.0}, {"n_init": 0}])
def test_scikit_learn_checks_the_settings_of_k_means(wrong):
    with pytest.raises(DKernelError, match=next(iter(wrong))):
        KernelKMeans(2, **wrong).fit(X)


def test_xgboost_counts_the_passes_that_were_made():
    many = rng.normal(size=(2000, 3))
    noisy = (many[:, 0] + rng.normal(size=len(many)) > 0).astype(int)
    settings = {"loss": "logistic", "passes": 12, "patience": 1, "solver": "psgd", "alpha": 1e-9}
    machine = KernelClassifier("gaussian", gamma=5.0, n_components=800, local="none", **settings).fit(many, noisy)
    assert 0 < machine.n_iter_ < 12


@pytest.mark.parametrize("solver", ["normal", "pcg"])
def test_all_rows_are_kernel_ridge_regression(solver):
    R, y = make_regression(n_features=10, random_state=0)
    settings = {
        "n_components": 100,
        "holdout": 0,
        "solver": solver,
        "scale": None,
        "local": "none",
        "metric": "identity",
    }
    machine = KernelRegressor("gaussian", gamma=0.05, alpha=1e-4, **settings).fit(R, y)
    exact = KernelRidge(kernel="rbf", gamma=0.05, alpha=1e-2).fit(R, y - y.mean())
    assert machine.n_components_ == 100
    np.testing.assert_allclose(machine.predict(R), exact.predict(R) + y.mean(), atol=0.02 * y.std())


def test_onnx_fills_a_hole_as_predict_does():
    R, y = load_iris(return_X_y=True)
    machine = KernelClassifier("gaussian", gamma=0.3, alpha=1e-3, local="none").fit(R, y)
    rows = R[y == 2].astype(np.float32)
    rows[:, 0] = np.nan
    graph = onnxruntime.InferenceSession(dkernel.to_onnx(machine).SerializeToString())
    np.testing.assert_array_equal(graph.run(["label"], {"X": rows})[0].ravel(), machine.predict(rows))


def test_scikit_learn_calibrates_weights_as_doubled_rows():
    weight = rng.integers(1, 3, len(X))
    fitted = KernelClassifier(**LINEAR, dtype="float64").fit(X, SIGN)
    machine = CalibratedClassifierCV(FrozenEstimator(fitted))
    one = clone(machine).fit(X, SIGN, sample_weight=weight).predict_proba(X)
    other = clone(machine).fit(X.repeat(weight, axis=0), SIGN.repeat(weight)).predict_proba(X)
    np.testing.assert_allclose(one, other, atol=1e-6)


@pytest.mark.parametrize("solver", ["exact", "normal", "lbfgs"])
def test_rows_of_weight_zero_are_not_there(solver):
    weight = (X[:, 1] > -1).astype(float)
    settings = {**LINEAR, "solver": solver, "holdout": 0, "scale": None}
    some = KernelRegressor(**settings).fit(X[weight > 0], LINE[weight > 0])
    np.testing.assert_allclose(
        KernelRegressor(**settings).fit(X, LINE, sample_weight=weight).predict(X), some.predict(X), atol=1e-3
    )


def test_a_tube_that_holds_all_rows_has_no_support():
    machine = KernelRegressor("gaussian", gamma=0.3, loss="epsilon_insensitive(9)", solver="exact")
    assert len(machine.fit(X, LINE / np.abs(LINE).max()).support_) == 0


def test_the_perceptron_takes_sparse_rows():
    machine = KernelPerceptron("linear").fit(X, SIGN)
    np.testing.assert_array_equal(machine.predict(sp.csr_matrix(X)), machine.predict(X))


def test_nu_is_the_share_of_outliers():
    assert (OneClassSVM(gamma=0.3, nu=0.2).fit(X).predict(X) == -1).mean() == pytest.approx(0.2, abs=0.05)


def test_one_against_one_is_as_good():
    R, y = load_iris(return_X_y=True)
    machine = KernelClassifier("gaussian", gamma=0.3, alpha=1e-3, local="none")
    pairs = OneVsOneClassifier(machine).fit(R, y)
    assert len(pairs.estimators_) == 3
    assert abs(pairs.score(R, y) - machine.fit(R, y).score(R, y)) < 0.03


def test_a_search_scores_by_probabilities():
    search = GridSearchCV(KernelClassifier(**LINEAR), {"alpha": [1e-4, 1e-2]}, scoring="neg_log_loss", cv=2)
    assert np.isfinite(search.fit(X, SIGN).cv_results_["mean_test_score"]).all()


@pytest.mark.parametrize("value", [3e38, np.inf])
def test_far_rows_have_the_answer_of_predict_or_none(value):
    machine = KernelClassifier("gaussian", gamma=0.3, alpha=1e-3, local="none").fit(X, SIGN)
    rows = np.full((1, 3), value, np.float32)
    graph = onnxruntime.InferenceSession(dkernel.to_onnx(machine).SerializeToString())
    try:
        expected = machine.predict(rows)
    except DKernelError:
        with pytest.raises(Exception, match="A number of a row"):
            graph.run(["label"], {"X": rows})
    else:
        assert graph.run(["label"], {"X": rows})[0].ravel() == expected


def test_scores_of_arrays_are_refused_by_name():
    with pytest.raises(DKernelError, match=r"(?i)array"):
        dkernel.score(KernelRegressor(**LINEAR).fit(X, LINE), da.from_array(X, chunks=50), "out")


@pytest.mark.parametrize("labels", [np.array(["no", "yes"]), np.array([False, True]), np.array([-1.0, 1.0])], ids=str)
def test_labels_come_back_as_they_were(labels):
    found = KernelClassifier(**LINEAR).fit(X, labels[SIGN]).predict(X)
    assert found.dtype == labels.dtype
    assert set(found) <= set(labels)


def test_one_row_of_a_frame_is_asked_for_as_a_frame():
    frame = pd.DataFrame(X, columns=list("abc"))
    machine = KernelRegressor(**LINEAR).fit(frame, LINE)
    with pytest.raises(DKernelError, match="iloc"):
        machine.predict(frame.iloc[0])
