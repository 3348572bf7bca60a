"""Means of the label by the values of a category: shrunk, without a row's own label, the same however rows are cut."""

import json
from itertools import pairwise

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dkernel.data.encoding import Encoding, TableCounts
from dkernel.data.encoding.counts import MOST_VALUES
from dkernel.data.encoding.label_means import LABEL_FOLDS, row_folds, shrink

KINDS = {"zip": "category", "x": "number"}


def table(n=3000, levels=300, seed=0, effect=1.0):
    """Values of a category with an effect each, the same for every seed."""
    rng = np.random.default_rng(seed)
    zips = rng.integers(0, levels, n)
    effects = effect * np.random.default_rng(7).normal(size=levels)
    frame = pd.DataFrame({"zip": [f"z{i}" for i in zips], "x": rng.normal(size=n)})
    return frame.assign(y=effects[zips] + np.sin(2 * frame["x"]) + 0.3 * rng.normal(size=n))


def encoding_of(frame, label="y", parts=1, weight=None):
    total = None
    cuts = np.linspace(0, len(frame), parts + 1).astype(int)
    for first, stop in pairwise(cuts):
        part = frame.iloc[first:stop]
        arrow = pa.Table.from_pandas(part[list(KINDS)], preserve_index=False)
        weights = None if weight is None else weight[first:stop]
        counts = TableCounts.of(arrow, KINDS, part[label].to_numpy(), weights, first)
        total = counts if total is None else total.merge(counts)
    return total.encoding(KINDS)


def inputs(encoding, frame, first=None):
    arrow = pa.Table.from_pandas(frame[list(KINDS)], preserve_index=False)
    return encoding.encode(arrow, "float64", None if first is None else row_folds(first, len(frame)))[0]


def test_the_mean_of_a_value_is_that_of_a_random_effect():
    rng = np.random.default_rng(0)
    n = rng.integers(3, 60, 2000)
    effects = 2.0 * rng.normal(size=len(n))
    rows = [effect + 3.0 * rng.normal(size=m) for effect, m in zip(effects, n, strict=True)]
    means, squares = (np.array([f(r) for r in rows]) for f in (np.mean, lambda r: np.sum((r - r.mean()) ** 2)))
    found, base = shrink(n.astype(float), means, squares)
    # With the variances that the rows were drawn with: 4 between values, 9 within.
    np.testing.assert_allclose(found, base + n * 4 / (n * 4 + 9) * (means - base), atol=0.1)


def test_a_value_seen_in_one_fold_alone_has_the_mean_of_all_in_it():
    # Within values the label does not vary, and a value without rows in the other folds has none to go by.
    frame = table(900)
    frame["y"] = frame["zip"].str.len() > 3
    encoding = encoding_of(frame)
    assert encoding.columns[0].means is not None
    assert np.isfinite(inputs(encoding, frame, 0)).all()


def test_all_values_have_means_of_few_categories():
    frame = table(8000, levels=4000)
    assert len(frame["zip"].unique()) > MOST_VALUES
    means = encoding_of(frame, parts=5).columns[0].means
    assert {value for value, _ in means.values} == {"", *frame["zip"]}


def test_values_that_say_nothing_have_no_means():
    encoding = encoding_of(table(effect=0.0))
    assert encoding.columns[0].means.outputs == ()
    assert Encoding.from_json(json.loads(json.dumps(encoding.to_json()))) == encoding


def test_a_category_of_few_values_has_none():
    assert encoding_of(table(levels=50)).columns[0].means is None


def test_rows_to_learn_from_do_not_see_their_own_label():
    frame = table()
    row = 11
    other = frame.copy()
    other.loc[row, "y"] += 100
    one, two = encoding_of(frame), encoding_of(other)
    at = one.names.index("zip:mean")
    learned = [inputs(e, frame, 0)[:, at] for e in (one, two)]
    folds = row_folds(0, len(frame))
    fold = folds == folds[row]
    np.testing.assert_array_equal(learned[0][fold], learned[1][fold])
    assert inputs(two, frame)[row, at] > inputs(one, frame)[row, at]
    assert len(set(learned[0][frame["zip"] == frame["zip"][row]])) == LABEL_FOLDS


@pytest.mark.parametrize("label", [lambda y: y, lambda y: np.digitize(y, [-1, 1])], ids=["number", "classes"])
def test_means_are_those_of_the_rows_of_other_folds_with_their_weights(label):
    frame = table()
    frame["y"], weight = label(frame["y"]), np.random.default_rng(5).integers(0, 5, len(frame)) / 2
    encoding, folds = encoding_of(frame, parts=3, weight=weight), row_folds(0, len(frame))
    at = [i for i, name in enumerate(encoding.names) if name.startswith("zip:")]
    learned, classes = inputs(encoding, frame, 0)[:, at], sorted(frame["y"].unique())
    one_hot = frame[["y"]] if len(at) == 1 else pd.get_dummies(frame["y"])[classes].astype(float)
    for fold in range(LABEL_FOLDS):
        others = (folds != fold) & (weight > 0)
        rows, w, names = one_hot[others], weight[others], frame["zip"][others]
        total, n = pd.Series(w).groupby(names.values).sum(), np.ceil(pd.Series(w)).groupby(names.values).sum()
        for j, column in enumerate(rows):
            y = rows[column].to_numpy()
            mean = pd.Series(w * y).groupby(names.values).sum() / total
            spread = pd.Series(w * (y - names.map(mean)) ** 2).groupby(names.values).sum() / total
            shrunk, base = shrink(n.to_numpy(), mean.to_numpy(), (n * spread).to_numpy())
            expected = frame["zip"][folds == fold].map(pd.Series(shrunk, mean.index)).fillna(base)
            np.testing.assert_allclose(learned[folds == fold, j], expected, rtol=1e-9)


def test_parts_merge_to_the_whole():
    one, parts = encoding_of(table()), encoding_of(table(), parts=7)
    for first in (None, 0):
        np.testing.assert_array_equal(inputs(parts, table(), first), inputs(one, table(), first))


def test_rows_of_weight_0_do_not_count():
    frame = table()
    weight = np.r_[np.ones(2500), np.zeros(500)]
    odd = frame.assign(y=np.where(weight > 0, frame["y"], 1e9))
    at = encoding_of(frame).names.index("zip:mean")
    one = inputs(encoding_of(frame.iloc[:2500]), frame)[:, at]
    np.testing.assert_allclose(inputs(encoding_of(odd, weight=weight), frame)[:, at], one, atol=1e-12)


@pytest.mark.parametrize(
    ("label", "outputs"),
    [
        (lambda y: np.where(y > 0, "yes", "no"), ("yes",)),
        (lambda y: y > 0, ("True",)),
        (lambda y: np.digitize(y, [-1, 1]), ("0", "1", "2")),
        (lambda y: (10 * y).astype(int), ("mean",)),
        (lambda y: np.array([f"class {v}" for v in (10 * y).astype(int)]), ()),
    ],
)
def test_the_inputs_are_shares_of_few_classes_or_the_mean_of_a_number(label, outputs):
    frame = table()
    frame["y"] = label(frame["y"].to_numpy())
    assert encoding_of(frame).columns[0].means.outputs == outputs


def test_new_values_have_the_mean_of_all_and_are_counted():
    encoding = encoding_of(table())
    new = pd.DataFrame({"zip": ["never", None, "z1"], "x": [0.0, 0.0, 0.0]})
    arrow = pa.Table.from_pandas(new, preserve_index=False)
    X, marks = encoding.encode(arrow, "float64")
    at = encoding.names.index("zip:mean")
    assert X[0, at] == X[1, at] == encoding.columns[0].means.base[0]
    assert encoding.count_marks(marks) == {"missing": {"zip": 1}, "unknown": {"zip": 1}}
    assert encoding.groups == (tuple(range(100)),)
    assert encoding.unscaled[[0, at]].tolist() == [True, False]


def test_json_gives_the_means_again():
    encoding = encoding_of(table())
    again = Encoding.from_json(json.loads(json.dumps(encoding.to_json())))
    assert again == encoding.settle() == encoding
    np.testing.assert_array_equal(inputs(again, table(), 0), inputs(encoding, table()))
    for change in ({"base": [0.0, 1.0]}, {"values": [["a", [float("nan")]]]}, {"outputs": [3]}):
        found = encoding.to_json()
        found["columns"][0]["means"] = {**json.loads(json.dumps(found["columns"][0]["means"])), **change}
        with pytest.raises((ValueError, TypeError)):
            Encoding.from_json(found)
