"""Frames whose columns are not what they usually are: of pandas, of Arrow, and partitions that differ."""

from decimal import Decimal

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import BaggingRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dkernel import KernelClassifier, KernelRegressor
from dkernel.errors import DataError
from tests.estimators.data import ESTIMATORS

N = 120


def table(**columns):
    rng = np.random.default_rng(0)
    return pd.DataFrame({"a": rng.normal(size=N), "b": rng.normal(size=N)}).assign(**columns)


def labels():
    rows = table()
    return np.where(rows["a"] * rows["b"] > 0, "yes", "no")


def fitted(X, y):
    return KernelClassifier("gaussian", gamma=0.5, n_components=16, alpha=1e-3, metric="identity").fit(X, y)


@pytest.mark.parametrize(
    "values",
    [
        pd.cut(table()["a"], 4),
        pd.array(
            pa.array(np.resize(["u", "v"], N)).dictionary_encode(),
            dtype=pd.ArrowDtype(pa.dictionary(pa.int32(), pa.string())),
        ),
        pd.Categorical(np.resize([1, 2, 7], N)),
    ],
    ids=["intervals", "a dictionary of Arrow", "whole numbers"],
)
def test_all_kinds_of_categories_are_categories(values):
    machine = fitted(table(c=values), labels())
    assert machine.model_.encoding.kinds["c"] == "category"
    assert len(machine.predict(table(c=values))) == N


HELD = {
    "decimals": pd.Series([Decimal(i % 7) / 4 for i in range(N)], dtype=object),
    "whole numbers": pd.Series([i % 7 for i in range(N)], dtype=object),
    "truth values": pd.Series([i % 7 > 2 for i in range(N)], dtype=object),
    "decimals of Arrow": pd.Series([Decimal(i % 7) / 4 for i in range(N)], dtype=pd.ArrowDtype(pa.decimal128(9, 2))),
    "sparse": pd.Series(pd.arrays.SparseArray(np.arange(N) % 7 // 6 / 4)),
}


@pytest.mark.parametrize("more", [{}, {"k": "u"}], ids=["numbers alone", "a category beside it"])
@pytest.mark.parametrize("values", HELD.values(), ids=HELD)
def test_numbers_are_numbers_however_pandas_holds_them(values, more):
    odd, plain = (table(c=column, **more) for column in (values, values.astype("float64")))
    found, expected = (fitted(frame, labels()) for frame in (odd, plain))
    assert (found.component_coef_ == expected.component_coef_).all()
    for machine in (found, expected):
        for rows in (odd, pa.table({name: pa.array(odd[name].astype(object)) for name in odd})):
            assert (machine.decision_function(rows) == expected.decision_function(plain)).all()


def parts(first, second):
    """A lazy frame whose partitions have these values, and the types of the first."""
    frames = [table(c=first), table(c=second)]
    X = dd.from_map(lambda i: frames[i], [0, 1], meta=frames[0].iloc[:0])
    return X, dd.from_pandas(pd.Series(np.tile(labels(), 2)), npartitions=1).repartition(divisions=[0, N, 2 * N - 1])


@pytest.mark.parametrize("more", [{}, {"k": "u"}], ids=["numbers alone", "a category beside it"])
def test_text_in_one_partition_of_numbers_is_named(more):
    X, y = parts(1.5, "x")
    with pytest.raises(DataError, match=r"Column 'c' of X holds 'x', where other rows or the training have numbers"):
        fitted(X.assign(**more), y)


def test_a_partition_may_hold_nothing_in_a_column_of_numbers():
    X, y = parts(1.5, np.array([None] * N, object))
    machine = fitted(X, y)
    assert machine.model_.encoding.kinds["c"] == "number"
    assert len(machine.predict(X).compute()) == 2 * N


def test_a_column_of_numbers_that_holds_text_at_prediction_is_named():
    machine = fitted(table(c="u", d=1.0), labels())
    with pytest.raises(DataError, match="Column 'd' of X holds 'x'"):
        machine.predict(table(c="u", d="x"))


@pytest.mark.parametrize("give", [pd.DataFrame, np.ndarray.tolist, np.array])
def test_numbers_and_texts_of_numbers_in_one_column_are_refused(give):
    rows = np.array([[i / 7, [1, "1"][i % 2]] for i in range(40)], dtype=object)
    with pytest.raises(DataError, match=r"X, column '1': it holds values of another type"):
        KernelClassifier("gaussian").fit(give(rows), [0, 1] * 20)


class Hashing(dict):
    """A dict of Python 3.12, in which slices have a hash: one is no key, and no longer of the wrong type."""

    def __getitem__(self, key):
        if isinstance(key, slice):
            raise KeyError(key)
        return super().__getitem__(key)


@pytest.mark.parametrize("holder", [dict, Hashing])
def test_the_error_for_a_dict_names_the_call_to_use(holder):
    columns = {"a": [1.0, 2.0, 3.0, 4.0], "s": ["u", "v", "u", "v"]}
    fitted = KernelClassifier("gaussian", gamma=1.0, n_components=4).fit(pd.DataFrame(columns), [0, 1, 0, 1])
    for call in (*(kind().fit for kind in ESTIMATORS), fitted.predict):
        with pytest.raises(DataError, match=r"pandas\.DataFrame\(X\)"):
            call(holder(columns), *([[0, 1, 0, 1]] if call.__name__ == "fit" else []))


@pytest.mark.parametrize("partitions", [0, 2])
def test_dates_where_the_training_had_numbers_are_refused(partitions):
    frame = pd.DataFrame({"x": np.arange(40.0), "d": pd.date_range("2024-01-01", periods=40), "s": ["a", "b"] * 20})
    machine = KernelClassifier("gaussian", gamma=1.0, n_components=8, alpha=1e-3).fit(frame, np.arange(40) % 2)
    since = frame["d"] - frame["d"].min()
    cases = ("x", frame["d"], "numbers"), ("d", frame["x"], "dates"), ("d", since, "dates")
    for name, other, what in cases:
        new = frame.assign(**{name: other})
        rows = dd.from_pandas(new, npartitions=partitions) if partitions else new
        with pytest.raises(DataError, match=f"'{name}' of X holds .*, where other rows or the training have {what}"):
            np.asarray(machine.predict(rows))
    assert len(machine.predict(frame.assign(x=np.nan, d=pd.NaT, s=None))) == 40  # columns of nothing are of any type


RNG = np.random.default_rng(0)
MIXED = pd.DataFrame(
    {
        "x": RNG.normal(size=300),
        "city": RNG.choice(["Bern", "Rome"], 300),
        "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(RNG.integers(0, 300, 300), "D"),
    }
)
WARMTH = MIXED["x"] * np.where(MIXED["city"] == "Rome", 1, -1)
HOLDERS = {
    "objects": lambda frame: frame.astype(object).to_numpy(),
    "lists": lambda frame: frame.astype(object).to_numpy().tolist(),
    "tuples": lambda frame: list(frame.itertuples(index=False, name=None)),
    "frame without names": lambda frame: frame.set_axis(range(3), axis=1),
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_rows_of_several_types_are_answered_in_whatever_holds_them(holder):
    settings = {"kernel": "gaussian", "gamma": 0.3, "alpha": 1e-3}
    twin = KernelRegressor(**settings).fit(MIXED, WARMTH)
    machine = KernelRegressor(**settings).fit(HOLDERS[holder](MIXED), WARMTH)
    for other in HOLDERS.values():
        np.testing.assert_array_equal(machine.predict(other(MIXED)), twin.predict(MIXED))
    assert machine.score(HOLDERS[holder](MIXED), WARMTH) > 0.9
    if holder != "frame without names":
        np.testing.assert_array_equal(twin.predict(HOLDERS[holder](MIXED)), twin.predict(MIXED))


def test_a_bag_and_a_transformer_of_columns_give_such_arrays():
    settings = {"kernel": "gaussian", "gamma": 0.3, "alpha": 1e-3}
    assert (
        BaggingRegressor(KernelRegressor(**settings), 2, random_state=0).fit(MIXED, WARMTH).score(MIXED, WARMTH) > 0.8
    )
    scaled = make_column_transformer((StandardScaler(), ["x"]), remainder="passthrough")
    assert make_pipeline(scaled, KernelRegressor(**settings)).fit(MIXED, WARMTH).score(MIXED, WARMTH) > 0.9


def test_one_row_of_a_frame_is_no_table_and_the_message_makes_one():
    for frame, y in ((MIXED, WARMTH), (MIXED[["x"]].assign(z=1.0), WARMTH)):
        machine = KernelRegressor("gaussian", gamma=0.3, alpha=1e-3).fit(frame, y)
        with pytest.raises(DataError, match=r"X is a Series.*X\.to_frame\(\)\.T, or frame\.iloc\[\[i\]\]"):
            machine.predict(frame.iloc[3])
        for row in (frame.iloc[[3]], frame.iloc[3].to_frame().T):
            np.testing.assert_allclose(machine.predict(row), machine.predict(frame)[3:4])
