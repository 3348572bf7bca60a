"""partial_fit: what blocks teach one after the other, what stays of the first, and what is refused."""

import pickle

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone

import dkernel
from dkernel import Cells, KernelClassifier, KernelRegressor
from dkernel.errors import DataError, DriftWarning, RecipeError, UnknownCategoriesWarning, UnsupportedError
from dkernel.estimators import partial_fit
from dkernel.estimators.errors import NotFittedError
from dkernel.training import fit
from tests.combinations import every_two
from tests.estimators.data import SMALL, ball, chunked, wave

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


def test_a_fit_waits_until_an_answer_is_asked_for(monkeypatch):
    X, y = ball(2000)
    fits = []

    def train(source, *args, **kwargs):
        fits.append(source.n_rows)
        return fit.train(source, *args, **kwargs)

    monkeypatch.setattr(partial_fit, "train", train)
    machine = stream_of(KernelClassifier(), X, y, 100, classes=[False, True])
    assert fits == [100]  # the first, so that settings that do not go together are told at once
    copy = pickle.loads(pickle.dumps(machine))
    assert machine.model_.facts["rows"] == 2000
    assert machine.score(X, y) > 0.9
    assert machine.n_components_ == machine.model_.map.n_components
    assert fits == [100, 2000]
    np.testing.assert_array_equal(copy.decision_function(X[:9]), machine.decision_function(X[:9]))


def test_answers_do_not_depend_on_when_they_are_asked_for():
    X, y = ball(900)
    quiet, asked = (KernelClassifier(**SMALL) for _ in range(2))
    for first in range(0, 900, 90):
        for machine in (quiet, asked):
            machine.partial_fit(X[first : first + 90], y[first : first + 90], classes=[False, True])
        asked.predict_set(X)
    np.testing.assert_array_equal(quiet.component_coef_, asked.component_coef_)
    np.testing.assert_array_equal(quiet.predict_proba(X), asked.predict_proba(X))


@pytest.mark.parametrize("container", [np.asarray, chunked, pd.DataFrame, sparse.csr_array])
@pytest.mark.parametrize("start", ["blocks", "fit", "cells", "table"])
def test_rows_without_weight_and_no_rows_are_no_change(start, container):
    X, y = ball(600)
    Z = container(X) if container is chunked else X
    if start == "table":
        Z = X = pd.DataFrame(X, columns=list("abc")).assign(kind=np.where(X[:, 0] > 0, "x", "z"))
    elif container is not chunked:
        Z = X = container(X)
    y_of = chunked(y) if container is chunked else y
    cells = [Cells(rows=200)] if start == "cells" else []
    settings = SMALL | {"local": cells[0] if cells else "none"}
    machine, other = (KernelClassifier(**settings) for _ in range(2))
    weight = np.where(np.arange(600) % 3, 1.0, 0.0)
    for each in (machine, other):
        each.partial_fit(Z, y_of, [False, True]) if start == "blocks" else each.fit(X, y)
    before = machine.decision_function(X)
    no_weight = da.zeros(600, chunks=250) if container is chunked else np.zeros(600)
    machine.partial_fit(Z, y_of, sample_weight=no_weight)
    machine.partial_fit(Z[:0], y_of[:0])
    np.testing.assert_array_equal(machine.decision_function(X), before)
    if start != "table":  # which takes 512 rows at a time
        machine.partial_fit(X, y, sample_weight=weight)
        other.partial_fit(X[weight > 0], y[weight > 0])
        # The rows of cells are in the order of hashes of all their numbers.
        np.testing.assert_allclose(machine.decision_function(X), other.decision_function(X), atol=1e-5 * len(cells))


def test_no_rows_at_first_begin_nothing():
    X, y = ball(600)
    machine = KernelClassifier(**SMALL).partial_fit(X[:0], y[:0], [False, True])
    machine.partial_fit(X, y, [False, True], np.zeros(600))
    with pytest.raises(NotFittedError):
        machine.predict(X)
    assert machine.partial_fit(X, y).score(X, y) > 0.9


@pytest.mark.parametrize(
    ("settings", "has"),
    [({}, True), ({"loss": "logistic"}, True), ({"calibration": "temperature"}, True), ({"calibration": None}, False)],
)
def test_whether_there_are_probabilities_stays(settings, has):
    X, y = ball(1200)
    machine = KernelClassifier(**SMALL | settings)
    for rows in (slice(1), slice(1, 60), slice(60, 700), slice(700, 1200)):
        assert hasattr(machine, "predict_proba") is has
        machine.partial_fit(X[rows], y[rows], classes=[False, True])
        assert hasattr(machine, "predict_proba") is has
    if has:
        P = machine.predict_proba(X)
        assert P.max(axis=1).mean() == pytest.approx(machine.score(X, y), abs=0.1)
        assert machine.predict_set(X)[np.arange(1200), y.astype(int)].mean() > 0.85


def test_probabilities_begin_with_the_last_class():
    X, _ = ball(4000)
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    early = (np.arange(len(y)) > 1000) | (y < 2)
    X, y = X[early], y[early]
    machine = KernelClassifier(**SMALL).partial_fit(X[:600], y[:600], classes=[0, 1, 2])
    with pytest.raises(UnsupportedError, match="gives no probabilities"):
        machine.predict_proba(X)
    with pytest.warns(DriftWarning):
        machine.partial_fit(X[600:], y[600:])
    assert machine.predict_proba(X).shape == (len(X), 3)
    assert machine.predict_set(X)[np.arange(len(y)), y].mean() == pytest.approx(0.9, abs=0.05)


def test_a_stream_goes_on_from_its_file(tmp_path):
    X, y = ball(3000)
    machine = stream_of(KernelClassifier(**SMALL), X, y, 750, classes=[False, True])
    dkernel.save(machine, tmp_path / "m")
    again = dkernel.load(tmp_path / "m")
    assert again.model_.facts["counts"] == np.bincount(y).tolist()
    np.testing.assert_array_equal(again.predict_proba(X), machine.predict_proba(X))
    assert again.partial_fit(X, y).score(X, y) > 0.9


@pytest.mark.parametrize("start", ["fit", "blocks", "cells", "table"])
def test_rows_far_off_are_told(start):
    X, y = ball(2000)
    Z = X + np.array([3, 0, 0])
    if start == "table":
        X, Z = (pd.DataFrame(each, columns=list("abc")).assign(kind=np.where(y, "x", "z")) for each in (X, Z))
    machine = KernelClassifier(**SMALL | {"local": Cells(rows=400) if start == "cells" else "none"})
    machine.partial_fit(X, y, [False, True]) if start == "blocks" else machine.fit(X, y)
    with pytest.warns(DriftWarning, match="a column has other values than in training: [0a]: mean") as told:
        machine.partial_fit(Z, y)
    assert len(told) == 1


def test_categories_that_training_had_not_are_told():
    X, y = ball(2000)
    kind = np.array(["x", "z"])[(X[:, 0] > 0).astype(int)]
    X = pd.DataFrame(X, columns=list("abc")).assign(kind=kind)
    machine = KernelClassifier(**SMALL, local="none").fit(X, y)
    X.loc[:29, "kind"] = "other"
    X.loc[40:59, "a"] = np.nan
    with pytest.warns(UnknownCategoriesWarning, match="filled with the mean: a 20; .* never saw: kind 30.*to others"):
        machine.partial_fit(X, y)


KINDS = {
    "dense": lambda X: X,
    "frame": lambda X: pd.DataFrame(X, columns=list("abc")),
    "sparse": lambda X: sparse.csr_array(np.pad(X, ((0, 0), (0, 5000)))),
    "chunks": lambda X: da.from_array(X, chunks=(50, -1)),
}


@pytest.mark.parametrize(
    ("kind", "labels", "loss"),
    every_two([*KINDS], [[False, True], ["a", "b", "c"], [0, 1]], ["auto", "logistic", "softmax"]),
)
def test_one_class_is_predicted_until_another_comes_and_no_row_is_lost(kind, labels, loss):
    X, y = ball(600)
    X, y = KINDS[kind](X[np.argsort(y, kind="stable")]), np.array(labels)[np.sort(y).astype(int)]
    machine = KernelClassifier(**(SMALL | {"scale": "none"}), loss=loss)
    at_once = clone(machine).partial_fit(X, y, classes=labels)
    for some in (slice(1), slice(1, 50)):
        machine.partial_fit(X[some], y[some], classes=labels)
    assert "one class" in machine.chosen_["waits"]
    assert machine.classes_.tolist() == labels
    assert (np.asarray(machine.predict(X)) == labels[0]).all()
    scores = np.asarray(machine.decision_function(X))
    assert scores.shape == ((600,) if len(labels) == 2 else (600, len(labels)))
    if loss != "auto":
        assert (np.asarray(machine.predict_proba(X))[:, 0] > 0.7).all()
    machine.partial_fit(X[50:], y[50:])
    assert machine.model_.facts["rows"] == at_once.model_.facts["rows"] == 600
    np.testing.assert_allclose(machine.decision_function(X), at_once.decision_function(X), atol=1e-3)


@pytest.mark.parametrize("targets", [1, 2])
def test_one_row_of_numbers_is_predicted_until_others_come(targets):
    X, y = wave(600)
    y = np.column_stack([y] * targets) if targets > 1 else y
    machine = KernelRegressor(**SMALL)
    assert "one row" in machine.partial_fit(X[:1], y[:1]).chosen_["waits"]
    np.testing.assert_array_equal(machine.predict(X[:3]), np.repeat(y[:1], 3, axis=0))
    at_once = KernelRegressor(**SMALL).partial_fit(X, y)
    np.testing.assert_allclose(machine.partial_fit(X[1:], y[1:]).predict(X), at_once.predict(X), atol=1e-4)


def test_neither_rows_without_weight_nor_one_class_begin_a_machine(tmp_path):
    X, y = ball(600)
    some, labels, weight = (da.from_array(each[:9]) for each in (X, y, np.zeros(600)))
    machine = KernelClassifier(**SMALL).partial_fit(some, labels, [False, True], weight)
    assert not hasattr(machine, "model_")
    one = np.flatnonzero(y)[:9]
    machine.partial_fit(X[one], y[one])
    dkernel.save(machine, tmp_path / "m")
    again = dkernel.load(tmp_path / "m")
    assert again.predict(X).all()
    with pytest.raises(UnsupportedError, match="learned nothing yet"):
        again.partial_fit(X, y)


def test_a_class_that_comes_later():
    X, _ = ball(6000)
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    early = (np.arange(len(y)) > 1000) | (y < 2)
    X, y = X[early], y[early]
    machine = KernelClassifier(**(SMALL | {"gamma": 0.1}))
    machine.partial_fit(X[:600], y[:600], classes=[0, 1, 2])
    assert machine.component_coef_.shape == (3, 64)
    assert 2 not in machine.predict(X)
    with pytest.warns(DriftWarning, match="0: mean -0.5"):
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
