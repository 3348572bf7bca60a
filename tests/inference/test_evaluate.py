"""Evaluation: the figures of scikit-learn, whatever the chunks and the weights; labels that the model cannot know."""

import json

import dask.array as da
import numpy as np
import pytest
from sklearn import metrics

from dkernel.data.collections.arrays import from_arrays
from dkernel.errors import DataError
from dkernel.inference.evaluate import evaluate_model
from dkernel.model.model import Model
from dkernel.model.recipe import Recipe
from dkernel.streaming.execution.local import SerialExecutor, ThreadsExecutor
from dkernel.streaming.progress import Progress
from dkernel.training.fit import train

SMALL = {"kernel": "gaussian", "metric": "identity", "n_components": 48, "gamma": 0.3, "alpha": 1e-4, "scale": "none"}


def rows(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)).astype(np.float32)
    return X, (X**2).sum(1) + rng.normal(size=n)


def fitted(X, y, **parameters) -> Model:
    return train(from_arrays(X, y), Recipe(**({"solver": "psgd"} | SMALL | parameters)), SerialExecutor()).model


@pytest.fixture(scope="module")
def two():
    X, s = rows(1500, 0)
    return fitted(X, np.where(s > 2.4, "out", "in"), loss="logistic")


def test_two_classes_as_scikit_learn_has_them(two):
    X, s = rows(5000, 1)
    y = np.where(s > 2.4, "out", "in")
    found = evaluate_model(two, from_arrays(X, y), SerialExecutor())
    S = two.scores(X)
    p = two.probabilities(S)
    called = two.labels(S)
    names = ["n", "accuracy", "error", "balanced_accuracy", "auc", "average_precision", "log_loss", "set", "far"]
    assert list(found) == [*names, "per_class"]
    assert found["n"] == 5000
    assert found["accuracy"] == pytest.approx(metrics.accuracy_score(y, called), abs=1e-12)
    assert found["error"] == pytest.approx(1 - found["accuracy"])
    assert found["auc"] == pytest.approx(metrics.roc_auc_score(y == "out", S[:, 0]), abs=1e-9)
    assert found["average_precision"] == pytest.approx(metrics.average_precision_score(y == "out", S[:, 0]))
    assert found["balanced_accuracy"] == pytest.approx(metrics.balanced_accuracy_score(y, called))
    assert found["log_loss"] == pytest.approx(metrics.log_loss(y, p), rel=1e-9)
    precision, recall, _, n = metrics.precision_recall_fscore_support(y, called)
    for i, label in enumerate(["in", "out"]):
        one = found["per_class"][i]
        assert one == {
            "label": label,
            "n": n[i],
            "precision": pytest.approx(precision[i]),
            "recall": pytest.approx(recall[i]),
        }


def test_weights_count(two):
    X, s = rows(3000, 2)
    y = np.where(s > 2.4, "out", "in")
    weight = np.random.default_rng(3).uniform(0, 2, 3000)
    found = evaluate_model(two, from_arrays(X, y, weight), SerialExecutor())
    S = two.scores(X)
    assert found["n"] == 3000
    assert found["accuracy"] == pytest.approx(metrics.accuracy_score(y, two.labels(S), sample_weight=weight))
    assert found["auc"] == pytest.approx(metrics.roc_auc_score(y == "out", S[:, 0], sample_weight=weight), abs=1e-9)
    assert found["log_loss"] == pytest.approx(metrics.log_loss(y, two.probabilities(S), sample_weight=weight))
    with pytest.raises(DataError, match="weights of all rows are 0"):
        evaluate_model(two, from_arrays(X, y, 0 * weight), SerialExecutor())


def test_the_same_for_any_chunks_and_executor(two):
    X, s = rows(7000, 4)
    y = np.where(s > 2.4, "out", "in")
    serial = evaluate_model(two, from_arrays(X, y), SerialExecutor())
    chunked = from_arrays(da.from_array(X, chunks=(900, -1)), da.from_array(y, chunks=900))
    assert evaluate_model(two, chunked, SerialExecutor()) == evaluate_model(two, chunked, ThreadsExecutor(2))
    again = evaluate_model(two, chunked, ThreadsExecutor(3))
    assert again["accuracy"] == serial["accuracy"]
    assert again["auc"] == pytest.approx(serial["auc"], abs=1e-12)
    assert again["log_loss"] == pytest.approx(serial["log_loss"], rel=1e-12)


def test_rows_of_one_class_have_no_auc(two):
    X, _ = rows(50, 5)
    found = evaluate_model(two, from_arrays(X, np.full(50, "in")), SerialExecutor())
    assert found["auc"] is None
    assert found["per_class"][1]["recall"] is None


def test_many_classes():
    X, s = rows(2000, 6)
    y = np.digitize(s, [1.5, 3.0])
    model = fitted(X, y)
    found = evaluate_model(model, from_arrays(X, y), SerialExecutor())
    called = model.predict(X)
    precision, recall, _, _ = metrics.precision_recall_fscore_support(y, called)
    assert found["auc"] is None
    assert found["log_loss"] == pytest.approx(metrics.log_loss(y, model.probabilities(model.scores(X))))
    plain = fitted(X, y, calibration="none")
    assert evaluate_model(plain, from_arrays(X, y), SerialExecutor())["log_loss"] is None
    assert [c["label"] for c in found["per_class"]] == [0, 1, 2]
    np.testing.assert_allclose([c["precision"] for c in found["per_class"]], precision)
    np.testing.assert_allclose([c["recall"] for c in found["per_class"]], recall)


def test_rows_of_weight_0_are_none(two):
    """Whatever their label and their numbers are."""
    rng = np.random.default_rng(3)
    n = 3000
    X, y = rng.normal(size=(n, 3)), np.where(rng.random(n) < 0.5, "in", "out").astype(object)
    weight = rng.uniform(1, 2, n) * (rng.random(n) < 0.5)
    weight[2100:] = 0.0  # all rows of a piece
    some = weight > 0
    unseen, far = y.copy(), X.copy()
    unseen[~some], far[~some] = "never seen", 3e38
    alone = evaluate_model(two, from_arrays(X[some], y[some].astype(str), weight[some]), SerialExecutor())
    for rows, labels in ((X, y), (far, unseen)):
        found = evaluate_model(two, from_arrays(rows, labels.astype(str), weight), SerialExecutor())
        assert found["n"] == some.sum()
        for one, other in zip(found["per_class"], alone["per_class"], strict=True):
            assert (one["label"], one["n"]) == (other["label"], other["n"])
            assert (one["precision"], one["recall"]) == pytest.approx((other["precision"], other["recall"]))
        assert [found[k] for k in ("accuracy", "auc", "log_loss")] == pytest.approx(
            [alone[k] for k in ("accuracy", "auc", "log_loss")]
        )


def test_a_regression_with_and_without_weights():
    X, s = rows(3000, 8)
    model = fitted(X, s, loss="squared")
    called = model.predict(X)
    found = evaluate_model(model, from_arrays(X, s), SerialExecutor())
    assert found.pop("far")["rows"] == 3000
    assert found.pop("interval")["covered"] == pytest.approx(0.9, abs=0.05)
    assert found == {
        "n": 3000,
        "rmse": pytest.approx(metrics.root_mean_squared_error(s, called)),
        "mae": pytest.approx(metrics.mean_absolute_error(s, called)),
        "r2": pytest.approx(metrics.r2_score(s, called)),
    }
    weight = np.arange(3000.0) % 3
    found = evaluate_model(model, from_arrays(X, s, weight), SerialExecutor())
    assert found["r2"] == pytest.approx(metrics.r2_score(s, called, sample_weight=weight))
    assert evaluate_model(model, from_arrays(X, np.ones(3000)), SerialExecutor())["r2"] is None
    with pytest.raises(DataError, match=r"text 'a'; this model predicts numbers"):
        evaluate_model(model, from_arrays(X, np.full(3000, "a")), SerialExecutor())


def test_a_source_without_a_label(two):
    with pytest.raises(DataError, match="needs a label"):
        evaluate_model(two, from_arrays(rows(10, 0)[0]), SerialExecutor())


def test_progress_is_told_every_row(two, capsys):
    X, s = rows(5000, 1)
    with Progress("json") as progress:
        evaluate_model(two, from_arrays(X, np.where(s > 2.4, "out", "in")), SerialExecutor(), progress)
    last = json.loads(capsys.readouterr().err.splitlines()[-1])
    assert (last["event"], last["phase"], last["rows"]) == ("end", "evaluate", 5000)
