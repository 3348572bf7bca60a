"""partial_fit: what blocks teach one after the other, what stays of the first, and what is refused."""

import pickle

import dask.array as da
import numpy as np
import pytest
from sklearn.base import clone

from dkernel import KernelClassifier, KernelRegressor
from dkernel.errors import DataError, RecipeError
from tests.estimators.data import SMALL, ball, wave

TEST = ball(4000, seed=9)


def stream_of(machine, X, y, size, **more):
    for at in range(0, len(X), size):
        machine.partial_fit(X[at : at + size], y[at : at + size], **more)
    return machine


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge", "logistic"])
def test_a_stream_is_nearly_as_good_as_a_fit(loss):
    X, y = ball(12_000)
    machine = KernelClassifier(**SMALL, loss=loss)
    whole = clone(machine).fit(X, y).score(*TEST)
    first = clone(machine).fit(X[:300], y[:300]).score(*TEST)
    streamed = stream_of(machine, X, y, 1500, classes=[False, True]).score(*TEST)
    assert streamed > whole - 0.01
    assert streamed > first
    assert machine.model_.facts["rows"] == 12_000
    assert machine.history_[-1]["loss"] < machine.history_[0]["loss"] * 1.5


def test_regression():
    X, y = wave(9000)
    machine = KernelRegressor(**(SMALL | {"n_components": 128}))
    assert stream_of(machine, X, y, 1000).score(*wave(2000, seed=5)) > 0.95


def test_the_same_blocks_give_the_same_model_and_a_pickle_goes_on():
    X, y = ball(4000)
    one = stream_of(KernelClassifier(**SMALL), X[:2000], y[:2000], 1000, classes=[False, True])
    two = pickle.loads(pickle.dumps(one))
    for machine in (one, two):
        stream_of(machine, X[2000:], y[2000:], 1000)
    np.testing.assert_array_equal(one.component_coef_, two.component_coef_)
    again = stream_of(KernelClassifier(**SMALL), X, y, 1000, classes=[False, True])
    np.testing.assert_array_equal(one.component_coef_, again.component_coef_)


def test_small_blocks_are_collected_and_answer_at_once():
    X, y = ball(700)
    # The perceptron is fitted by the same steps, of so few rows too.
    steps = SMALL | {"solver": "auto", "loss": "perceptron"}
    machine = KernelClassifier(**steps)
    machine.partial_fit(X[:100], y[:100], classes=[False, True])
    fitted = KernelClassifier(**steps).fit(X[:100], y[:100])
    np.testing.assert_array_equal(machine.component_coef_, fitted.component_coef_)
    stream_of(machine, X[100:], y[100:], 100)
    assert machine.model_.facts["rows"] == 700
    assert len(machine.history_) == 1  # 600 rows were for the first fit, at 8 for each of 64 columns and blocks of 100


def test_a_block_with_one_class_waits_for_the_other():
    X, y = ball(900)
    order = np.argsort(y[:600], kind="stable")
    machine = KernelClassifier(**SMALL).partial_fit(X[order[:50]], y[order[:50]], classes=[False, True])
    assert not hasattr(machine, "model_")
    assert machine.partial_fit(X[order[50:]], y[order[50:]]).score(X, y) > 0.8


def test_a_class_that_comes_later():
    X, _ = ball(6000)
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    early = (np.arange(len(y)) > 1000) | (y < 2)
    X, y = X[early], y[early]
    machine = KernelClassifier(**(SMALL | {"gamma": 0.1}))
    machine.partial_fit(X[:600], y[:600], classes=[0, 1, 2])
    assert machine.component_coef_.shape == (3, 64)
    assert 2 not in machine.predict(X)
    stream_of(machine, X[600:], y[600:], 1000)
    assert machine.score(X[-2000:], y[-2000:]) > 0.9


def test_after_a_fit_its_model_goes_on():
    X, y = ball(8000)
    machine = KernelClassifier(**SMALL).fit(X[:600], y[:600])
    before, landmarks = machine.score(*TEST), machine.model_.map.landmarks
    stream_of(machine, X[600:], y[600:], 1200)
    assert machine.model_.map.landmarks is landmarks
    assert machine.score(*TEST) >= before
    assert machine.model_.facts["rows"] == 8000


def test_a_dask_array_is_learned_from_chunk_by_chunk():
    X, y = ball(3000)
    by_hand = stream_of(KernelClassifier(**SMALL), X, y, 750, classes=[False, True])
    chunks = da.from_array(X, chunks=(750, 3)), da.from_array(y, chunks=750)
    machine = KernelClassifier(**SMALL).partial_fit(*chunks, classes=[False, True])
    np.testing.assert_allclose(machine.component_coef_, by_hand.component_coef_, rtol=1e-6, atol=1e-9)


def test_balanced_classes_are_counted_as_they_come():
    X, _ = ball(6000)
    y = X[:, 0] > 1.3  # a tenth
    settings = SMALL | {"alpha": 1e-2, "gamma": 0.05}
    plain = stream_of(KernelClassifier(**settings), X, y, 1000, classes=[False, True])
    even = stream_of(KernelClassifier(**settings, class_weight="balanced"), X, y, 1000, classes=[False, True])
    assert even.predict(X).mean() > plain.predict(X).mean()


def test_refusals():
    X, y = ball(600)
    with pytest.raises(RecipeError, match="needs classes"):
        KernelClassifier(**SMALL).partial_fit(X, y)
    machine = KernelClassifier(**SMALL).partial_fit(X, y, classes=[False, True])
    with pytest.raises(RecipeError, match="not those of the calls before"):
        machine.partial_fit(X, y, classes=[0, 1, 2])
    with pytest.raises(ValueError, match="features"):
        machine.partial_fit(X[:, :2], y)
    words = KernelClassifier(**SMALL).partial_fit(X, np.where(y, "a", "b"), classes=["a", "b"])
    with pytest.raises(DataError, match="no row of the training had the label 'c'"):
        words.partial_fit(X, np.where(y, "a", "c"))
