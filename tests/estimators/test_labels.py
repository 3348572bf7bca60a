"""Labels in whatever holds them are learned, judged and counted as the same labels in numpy."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from dkernel import KernelClassifier, KernelRegressor
from dkernel.errors import DataError
from tests.estimators.data import SMALL, ball, wave

TRUTH, WHOLE, TEXT = [False, True], [3, 7], ["in", "out"]


def objects(values):
    out = np.empty(len(values), object)
    out[:] = values
    return out


KINDS = {
    "objects, bool": (TRUTH, objects),
    "objects, int": (WHOLE, objects),
    "objects, numpy's int": (WHOLE, lambda values: objects([np.int64(v) for v in values])),
    "objects, text": (TEXT, objects),
    "list, text": (TEXT, list),
    "pandas' text": (TEXT, lambda values: pd.Series(values, dtype="str")),
    "bytes": (TEXT, lambda values: np.array([v.encode() for v in values])),
    "a series of objects": (WHOLE, lambda values: pd.Series(values, dtype=object, name="label")),
    "categories": (WHOLE, pd.Categorical),
    "Arrow, text": (TEXT, pa.array),
    "Arrow, bool": (TRUTH, pa.array),
    "Arrow, int": (WHOLE, pa.array),
    "Arrow, categories": (TEXT, lambda values: pa.array(values).dictionary_encode()),
    "Arrow, chunks": (TEXT, lambda values: pa.chunked_array([values])),
    "Polars": (TEXT, pl.Series),
    "Decimal": ([3, 7], lambda values: list(map(Decimal, values))),
    "a series of Decimal": ([3, 7], lambda values: pd.Series(list(map(Decimal, values)))),
    "Fraction": ([3.0, 7.0], lambda values: list(map(Fraction, values))),
}


@pytest.mark.parametrize("kind", KINDS)
def test_classes(kind):
    (labels, make), (X, truth) = KINDS[kind], ball(300)
    plain = np.array(labels)[truth.astype(int)]
    y = make(plain.tolist())
    machine, twin = (KernelClassifier(**SMALL, calibration="temperature").fit(X, given) for given in (y, plain))
    assert machine.classes_.tolist() == labels
    assert machine.predict(X).dtype == plain.dtype
    np.testing.assert_array_equal(machine.decision_function(X), twin.decision_function(X))
    assert machine.score(X, y) == twin.score(X, plain) > 0.8
    assert (machine.conformalize(X, y).predict_set(X) == twin.conformalize(X, plain).predict_set(X)).all()
    blocks = KernelClassifier(**SMALL).partial_fit(X, y, classes=make(labels))
    assert blocks.classes_.tolist() == labels
    judged = KernelClassifier(**SMALL).fit(X, y, eval_set=(X[:50], make(plain[:50].tolist())))
    assert judged.model_.facts["holdout"]["rows"] == 50


@pytest.mark.parametrize(
    "make",
    [objects, pa.array, pl.Series, lambda y: [Decimal(v) for v in y], lambda y: pa.array([Decimal(v) for v in y])],
)
def test_numbers(make):
    X, y = wave(300)
    y = np.round(y, 3)
    machine, twin = (KernelRegressor(**SMALL).fit(X, given) for given in (make(y.tolist()), y))
    np.testing.assert_allclose(machine.predict(X), twin.predict(X), rtol=1e-12)
    assert machine.score(X, make(y.tolist())) == pytest.approx(twin.score(X, y), rel=1e-12)


def test_a_longer_text_is_another_label():
    X, truth = ball(200)
    machine = KernelClassifier(**SMALL, holdout=0.2).fit(X, np.where(truth, "out", "in"))
    with pytest.raises(DataError, match="no row of the training had the label 'outer'"):
        machine.conformalize(X, objects(["outer"] * 200))


@pytest.mark.parametrize(("labels", "words"), [([1, "a"], "mixes int, str"), ([1, 2**70], "64 signed bits")])
def test_what_is_no_one_type_is_refused_in_words(labels, words):
    X, truth = ball(50)
    with pytest.raises(DataError, match=words):
        KernelClassifier(**SMALL).fit(X, objects([labels[each] for each in truth.astype(int)]))
