"""Data in random order pass; data that are sorted do not; luck alone raises no alarm."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from dkernel.streaming.exchangeability import explain_order
from dkernel.streaming.survey import ColumnMoments, SurveyResult
from tests.streaming.sources import source_of
from tests.streaming.test_survey import survey


def order_of(X, y, chunks):
    """Of the survey's parts that the test looks at, made directly."""
    edges, parts = np.cumsum([0, *chunks]), {}
    for i, (start, stop) in enumerate(pairwise(edges)):
        parts[i] = (ColumnMoments.of(X[start:stop]), dict(Counter(y[start:stop].tolist())))
    labels = dict(Counter(y.tolist())) if y.dtype.kind != "f" else None
    return explain_order(
        SurveyResult(ColumnMoments.of(X), X.min(axis=0), X.max(axis=0), labels, None, len(X), parts, None)
    )


def test_the_survey_itself_is_judged_alike():
    X, y = problem(6000)
    order = np.argsort(y, kind="stable")
    for rows in (np.arange(6000), order):
        found = explain_order(survey(source_of(X[rows].astype(np.float32), y[rows], [(1000, 2000), (3000,)])))
        direct = order_of(X[rows].astype(np.float32), y[rows], [1000, 2000, 3000])
        assert found == direct


def problem(n, classes=2, seed=0, rare=0.5):
    rng = np.random.default_rng(seed)
    share = np.array([rare, *[(1 - rare) / (classes - 1)] * (classes - 1)])
    y = rng.choice(classes, n, p=share)
    return rng.standard_normal((n, 3)) + 0.1 * y[:, None], y


@pytest.mark.parametrize("classes", [2, 7])
def test_random_order_is_alike(classes):
    assert not order_of(*problem(20_000, classes), [1000] * 20)


@pytest.mark.parametrize("classes", [2, 7])
@pytest.mark.parametrize(
    "chunks",
    [
        [1000] * 20,
        [10_000, 10_000],
        [6663, 6663, 6663, 11],
        [19_997, 3],
        [1997] * 10 + [30],
        [1000] * 20 + [3],
        [7] * 300,
    ],
)
def test_data_sorted_by_label_are_not_whatever_the_chunks(classes, chunks):
    X, y = problem(sum(chunks), classes)
    order = np.argsort(y, kind="stable")
    found = order_of(np.zeros_like(X), y[order], chunks)
    if chunks == [19_997, 3]:
        return  # three rows of one kind prove nothing
    assert found.startswith(f"the labels of the {len(chunks)} chunks differ, p = ")


def test_a_rare_class_in_one_chunk_is_noticed():
    X, y = problem(20_000, 3, rare=0.01)
    assert order_of(X, np.sort(y), [1000] * 20)


def test_data_sorted_by_a_feature_are_not_alike():
    X, y = problem(20_000)
    found = order_of(X[np.argsort(X[:, 1])], np.random.default_rng(1).permutation(y), [2000] * 10)
    assert "means" in found


def test_a_regression_by_its_features_alone():
    X, _ = problem(30_000)
    target = np.random.default_rng(1).standard_normal(30_000)
    assert not order_of(X, target, [3000] * 10)
    assert order_of(np.sort(X, axis=0), target, [3000] * 10)


@pytest.mark.parametrize("chunks", [[7] * 100, [40] * 30, [3, 300, 50, 1, 1000], [100] * 3, [15] * 200])
@pytest.mark.parametrize("rare", [0.5, 0.05])
def test_luck_raises_no_alarm(chunks, rare):
    """At a level of 1e-6 a hundred draws of random order are all alike."""
    for seed in range(100):
        X, y = problem(sum(chunks), 3, seed, rare)
        found = order_of(X, y, chunks)
        assert not found, (seed, found)


def test_heavy_tails_raise_no_alarm():
    for seed in range(50):
        X = np.random.default_rng(seed).standard_cauchy((4000, 2))
        assert not order_of(X, np.arange(4000) % 2, [400] * 10)


def test_one_chunk_and_constant_columns():
    X, y = problem(100)
    assert not order_of(X, np.sort(y), [100])
    assert not order_of(np.full((1000, 2), 7.0), problem(1000)[1], [100] * 10)
