"""Bad inputs: values. Numbers that are none, too large or too small, of the wrong type, and weights."""

import json
from functools import partial

import numpy as np
import pandas as pd

from dkernel import KernelClassifier
from dkernel.kernels import Linear, Normalized
from tests.bad_input.data import FIRST, LAST, NAMES, ROWS, SMALL, arrays, cell, frame, one, three, with_column
from tests.bad_input.doors import KINDS, Doors, fitted_on_right_data, learns
from tests.bad_input.table import BOTH, HANDLED, REFUSED, entries_of

bad = entries_of("values")


def _not_finite(at: Doors, value: float) -> None:
    """Infinite numbers, through every door."""
    word = str(value)
    for suffix, (part, row) in ((".parquet", FIRST), (".parquet", LAST), (".csv", LAST), (".npy", FIRST)):
        name = 1 if suffix == ".npy" else "b"
        place = f"part-{part}{suffix}, row {row + 1}, column '{name}': the value"
        at.train_refuses(three(suffix, cell(value, (part, row))), place)
        if suffix == ".parquet":
            at.score_refuses(three(suffix, cell(value, (part, row))), place.removesuffix(": the value"), word)
    at.score_rejects(three(".csv", cell(value, LAST)), 3 * ROWS - 1, "part-2.csv", "b")
    for row in (0, 399):
        X, y = arrays()
        X[row, 2] = value
        at.fit_refuses(rf"row {row}, column '(2|c)': the value {word} is not finite", X, y)
        at.predict_refuses(rf"row \d+( of a chunk of X)?, column '2': the value {word}", X)


@bad(
    "NaN",
    BOTH,
    "the mean of the column, with an input that says so; in `score` and `evaluate` counted by column where training "
    "had none. `--missing error` refuses it with its place",
)
def nan(at: Doors) -> None:
    for suffix, (part, row) in ((".parquet", FIRST), (".csv", LAST), (".npy", FIRST)):
        make = three(suffix, cell(np.nan, (part, row)))
        name = 1 if suffix == ".npy" else "b"
        place = f"part-{part}{suffix}, row {row + 1}, column '{name}': the value"
        at.train_refuses(lambda folder, make=make: [*make(folder), "--missing", "error"], place)
        assert at.trains(make).encoding.names[1:3] == (str(name), f"{name}=missing")
    found = at.scores(three(".csv", cell(np.nan, LAST)))
    assert len(found) == 3 * ROWS
    result = at.run("evaluate", at.model, *three(".csv", cell(np.nan, LAST))(at.folder()), "--json", "--quiet")
    assert json.loads(result.stdout)["filled"] == {"missing": {"b": 1}}
    X, y = arrays()
    X[7, 2] = np.nan
    at.fit_refuses(r"row 7, column '(2|c)': the value nan is not finite", X, y, machine=strict)
    for wrap in KINDS.values():
        fitted = at.fits(wrap(X, "X"), wrap(y, "y"))
        assert np.asarray(fitted.predict(wrap(X, "X"))).shape == (400,)
        assert fitted.model_.encoding.columns[2].indicator
    filled = fitted_on_right_data().predict(X[:20])
    assert filled.shape == (20,)


def strict(**more: object) -> KernelClassifier:
    """A machine that takes numbers alone."""
    return KernelClassifier(**SMALL, missing="error", categorical_features=None, **more)


for name, value in (("+inf", np.inf), ("-inf", -np.inf)):
    bad(name, REFUSED, "file, row and column are named", rejects=True)(partial(_not_finite, value=value))


@bad("1e300", BOTH, "too large for float32 is refused with its place; `--dtype float64` takes it", rejects=True)
def too_large(at: Doors) -> None:
    make = three(".parquet", cell(1e300, LAST))
    at.train_refuses(make, "part-2.parquet, row 300, column 'b': the value 1e+300 is too large for float32")
    at.score_refuses(make, "part-2.parquet, row 300, column 'b'", "1e+300 is too large for float32")
    at.score_rejects(three(".csv", cell(1e300, LAST)), 3 * ROWS - 1, "part-2.csv", "b")
    X, y = arrays()
    X = X.astype(np.float64)
    X[9, 1] = 1e300
    at.fit_refuses(r"row 9, column '(1|b)': the value 1e\+300 is too large for float32", X, y)
    data = with_column(b=lambda f: f["b"].astype(np.float64) * 1e100)
    assert np.isfinite(at.trains(one(data), "--dtype", "float64").coef).all()


@bad("subnormal", HANDLED, "the number that it is in the dtype of the blocks, 0 where that has none so small")
def subnormal(at: Doors) -> None:
    data = with_column(b=1e-310, c=lambda f: f["c"] * np.float32(1e-40))
    model = at.trains(one(data))
    assert np.isfinite(model.scaling.apply(data[NAMES].to_numpy(np.float32))).all()
    assert np.isfinite(model.scores(data[NAMES].to_numpy())).all()
    whole = at.trains(one(with_column(c=lambda f: f["c"] * 1e-40)), "--dtype", "float64")
    assert np.isfinite(whole.coef).all()


@bad("constant column", HANDLED, "it is centred and carries nothing; any scaling")
def constant(at: Doors) -> None:
    for scale in ("auto", "standard", "minmax", "global", "none"):
        data = with_column(zero=0.0, high=1e6 if scale == "standard" else 3.0)
        model = at.trains(one(data, ".parquet", "--scale", scale, "--n-components", "100"))
        X = data[list(model.columns)].to_numpy(np.float32)
        assert X.shape[1] == 5
        assert (model.predict(X) == data["label"]).mean() > 0.85
    X, y = arrays()
    X[:, 1] = 7.0
    for wrap in KINDS.values():
        assert np.isfinite(at.fits(wrap(X, "X"), wrap(y, "y")).component_coef_).all()


@bad("rows of zeros", HANDLED, "rows like others; a normalized kernel of a zero row is 0")
def zeros(at: Doors) -> None:
    data = frame()
    data.loc[:9, NAMES] = 0.0
    assert learns(at.trains(one(data))) > 0.75
    X, y = arrays()
    X[:10] = 0
    fitted = at.fits(X, y, kernel=Normalized(Linear()), scale="none", gamma="auto")
    assert np.isfinite(fitted.decision_function(X)).all()


@bad("label NaN", REFUSED, "file and row are named; fill or remove the row")
def label_nan(at: Doors) -> None:
    at.train_refuses(
        three(".parquet", cell(None, (2, 7), "label")), "part-2.parquet, row 8, column 'label': the value is missing"
    )
    at.train_refuses(
        three(".csv", cell(None, (2, 7), "label")), "part-2.csv, row 8, column 'label': the label is missing"
    )
    numbers = with_column(label=lambda f: np.where(f.index == 7, np.nan, f["a"]))
    at.train_refuses(one(numbers), "x.parquet, row 8, column 'label': the value is missing")
    X, y = arrays()
    y = np.where(np.arange(400) == 350, np.nan, y)
    at.fit_refuses("(?i)nan", X, y)


@bad("label inf", REFUSED, "file and row are named; fill or remove the row")
def label_inf(at: Doors) -> None:
    for suffix in (".parquet", ".csv"):
        numbers = with_column(label=lambda f: np.where(f.index == 7, np.inf, f["a"]))
        at.train_refuses(one(numbers, suffix), f"x{suffix}, row 8, column 'label': the label is inf")
    X, y = arrays()
    at.fit_refuses("(?i)inf", X, np.where(np.arange(400) == 350, -np.inf, y))


def _weight(at: Doors, value: float, word: str) -> None:
    weight = np.where(np.arange(ROWS) == 7, value, 1.0)
    place = "row 8, column 'w'"
    for suffix in (".parquet", ".csv"):
        said = f"x{suffix}, {place}"
        at.train_refuses(one(with_column(w=weight), suffix, "--weight", "w"), said)
    X, y = arrays()
    at.fit_refuses(word, X, y, np.where(np.arange(400) == 350, value, 1.0))


for name, value, word in (("weight NaN", np.nan, "(?i)nan"), ("weight negative", -1.0, "(?i)negative")):
    bad(name, REFUSED, "file and row are named")(partial(_weight, value=value, word=word))


@bad("weights all zero", REFUSED, "an error: nothing would be learned")
def weights_zero(at: Doors) -> None:
    at.train_refuses(one(with_column(w=0.0), ".parquet", "--weight", "w"), "weights are 0 in all 300 rows")
    X, y = arrays()
    at.fit_refuses("0 in all 400 rows|at least one non-zero", X, y, np.zeros(400))


@bad("integers above 2^53", HANDLED, "labels are kept to the last digit; features are rounded to their dtype")
def big_integers(at: Doors) -> None:
    big = 2**53
    data = frame().assign(label=lambda f: np.where(f["label"] == "in", big, big + 1).astype(np.int64))
    for suffix in (".parquet", ".csv"):
        model = at.trains(one(data, suffix))
        assert model.classes.tolist() == [big, big + 1]
        found = at.scores(one(data, suffix), model="m")
        assert set(found["label"]) == {big, big + 1}
        assert (found["label"] == data["label"]).mean() > 0.85
    X, y = arrays()
    assert at.fits(X, np.where(y, big, big + 1)).classes_.tolist() == [big, big + 1]
    data = frame().assign(b=lambda f: (f["b"] * 1e6).astype(np.int64) + 2**60)
    assert np.isfinite(at.trains(one(data)).coef).all()


@bad(
    "numbers as text",
    BOTH,
    "a column of text that holds numbers is refused, or a category where it is named; a CSV has no types, so quoted "
    "numbers are read",
)
def numeric_text(at: Doors) -> None:
    data = with_column(b=lambda f: f["b"].astype(str))
    at.train_refuses(
        one(data, ".parquet", "--categorical", "none"), "x.parquet, column 'b': it holds text", "--exclude b"
    )
    at.train_refuses(one(data), "column 'b': numbers such as", "--formats 'b=1234.5'", "--exclude b")
    assert "b (300 values)" in at.trains(one(data), "--categorical", "b").facts["chosen"]["categories"]
    at.score_refuses(one(data), "x.parquet, column 'b'")
    quoted = frame().astype(str).map('"{}"'.format).to_csv(index=False, quoting=3)
    (at.place / "quoted.csv").write_text(quoted)
    plain = at.trains(one(frame(), ".csv"))
    np.testing.assert_array_equal(at.trains(lambda _: [str(at.place / "quoted.csv")]).coef, plain.coef)
    X, y = arrays()
    at.fit_refuses("(?i)text|numbers|string|str", X.astype(str), y, kinds=("numpy", "dask"))
    at.fit_refuses("(?i)text|numbers|string|str", X.astype(str), y, kinds=("pandas",), machine=strict)


@bad("objects of mixed types", REFUSED, "the column, and in a CSV the row, are named")
def mixed(at: Doors) -> None:
    data = frame().astype({"b": object}).assign(b=lambda f: f["b"].where(f.index != 9, "??"))
    at.train_refuses(one(data, ".csv"), "x.csv, row 10, column 'b': '??'")
    at.score_refuses(one(data, ".csv"), "x.csv, ", "column 'b': '??'")
    X, y = arrays()
    X = X.astype(object)
    X[5, 1] = "??"
    at.fit_refuses(r"(?i)object|numbers|could not convert|'\?\?'", X, y, kinds=("numpy", "pandas", "dask"))
    labels = y.astype(object)
    labels[3] = "in"
    at.fit_refuses("(?i)mix|type", arrays()[0], labels, kinds=("numpy", "dask"))


@bad("nullable with NA", BOTH, "NA is a missing value, as NaN; without one the type is taken")
def nullable(at: Doors) -> None:
    whole = frame().assign(b=lambda f: (f["b"] * 10).round().astype("Int64"))
    gap = whole.copy()
    gap.loc[20, "b"] = pd.NA
    at.train_refuses(one(gap, ".parquet", "--missing", "error"), "x.parquet, row 21, column 'b': the value")
    assert at.trains(one(gap)).encoding.columns[1].indicator
    assert len(at.scores(one(gap))) == ROWS
    at.fit_refuses("row 20, column 'b': the value nan", gap[NAMES], gap["label"], kinds=("numpy",), machine=strict)
    assert at.fits(gap[NAMES], gap["label"]).model_.encoding.columns[1].indicator
    found = at.fits(whole[NAMES], whole["label"])
    plain = at.fits(whole[NAMES].astype({"b": "int64"}), whole["label"])
    np.testing.assert_array_equal(found.component_coef_, plain.component_coef_)
    y = whole["a"].gt(0).astype("boolean")
    y[3] = pd.NA
    at.fit_refuses("(?i)NA|missing", whole[NAMES], y, kinds=("numpy",))
