"""Bad inputs: shapes. Lengths, chunks and partitions that differ, emptiness anywhere, columns, too few rows."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dkernel.errors import DataError
from tests.bad_input.data import NAMES, arrays, frame, one, text, three
from tests.bad_input.doors import Doors, fitted_on_right_data, lazy
from tests.bad_input.table import BOTH, HANDLED, REFUSED, entries_of

bad = entries_of("shape")


@bad("X and y in other chunks", HANDLED, "y is rechunked as X, which the log says")
def chunks(at: Doors) -> None:
    X, y = arrays()
    with at.logged("y has other chunks than X"):
        found = at.fits(lazy(X), lazy(y, 130))
    np.testing.assert_array_equal(found.component_coef_, at.regular())


@bad("frames of other partitions", HANDLED, "likewise: rows are matched by their place, not their index")
def partitions(at: Doors) -> None:
    X, y = arrays()
    frames = dd.from_pandas(pd.DataFrame(X, columns=NAMES), npartitions=4)
    labels = dd.from_pandas(pd.Series(y, name="label"), npartitions=3)
    with at.logged("y has other chunks than X"):
        found = at.fits(frames, labels)
    same = at.fits(frames, dd.from_pandas(pd.Series(y, name="label"), npartitions=4))
    np.testing.assert_array_equal(found.component_coef_, same.component_coef_)


@bad("chunks of unknown size", HANDLED, "computed once, which the log says")
def unknown(at: Doors) -> None:
    X, y = arrays()
    mask = da.ones(400, chunks=100, dtype=bool)
    with at.logged("Chunk sizes are unknown: computing them once."):
        found = at.fits(lazy(X)[mask], lazy(y)[mask])
    np.testing.assert_array_equal(found.component_coef_, at.regular())


@bad("no rows at all", BOTH, "nothing to learn from or to measure, refused; scored: an output without rows")
def empty_all(at: Doors) -> None:
    for suffix in (".parquet", ".csv"):
        at.train_refuses(one(frame(rows=0), suffix), f"x{suffix}", "no rows")
        assert len(at.scores(one(frame(rows=0), suffix))) == 0
    X, y = arrays()
    at.fit_refuses("(?i)no rows|0 sample|0 rows", X[:0], y[:0], kinds=("numpy", "pandas", "dask"))


@bad("one row", BOTH, "nothing to learn from, refused; scored like any other")
def one_row(at: Doors) -> None:
    at.train_refuses(one(frame(rows=1)), "1 row", "two")
    assert len(at.scores(one(frame(rows=1)))) == 1
    X, y = arrays()
    at.fit_refuses("(?i)1 sample|1 row", X[:1], y[:1], kinds=("numpy", "pandas", "dask"))
    assert fitted_on_right_data().predict(X[:1]).shape == (1,)


@bad("no features", REFUSED, "before anything is read")
def no_features(at: Doors) -> None:
    at.train_refuses(one(frame()[["label"]]), "no column is left")
    at.train_refuses(one(frame(), ".parquet", "--exclude", "a,b,c"), "no column is left")
    X, y = arrays()
    at.fit_refuses("(?i)no columns|0 feature", X[:, :0], y, kinds=("numpy", "pandas", "dask"))


@bad("chunked columns", HANDLED, "rechunked to one block of columns, which the log says")
def chunked_columns(at: Doors) -> None:
    X, y = arrays()
    with at.logged("X has 2 blocks of columns: rechunking"):
        found = at.fits(lazy(X, columns=2), lazy(y))
    np.testing.assert_array_equal(found.component_coef_, at.regular())


@bad("columns in another order", BOTH, "files: found by name; data frames: refused, as scikit-learn does")
def reordered(at: Doors) -> None:
    for suffix in (".parquet", ".csv"):
        found = at.scores(one(frame()[["c", "label", "a", "b"]], suffix))
        pd.testing.assert_frame_equal(found, at.scores(one(frame(), suffix)))
    fitted = at.fits(frame()[NAMES], frame()["label"])
    for wrap in (lambda f: f, lambda f: dd.from_pandas(f, npartitions=2)):
        with pytest.raises(DataError, match="feature names should match"):
            fitted.predict(wrap(frame()[["b", "a", "c"]]))
        at.refused += 1


@bad("missing columns", REFUSED, "all of them are named; a misspelled label with the name that was meant")
def missing(at: Doors) -> None:
    at.score_refuses(one(frame()[["b", "label"]]), "x.parquet lacks the columns 'a', 'c' that the model needs")
    at.score_refuses(one(frame().rename(columns={"b": "B"})), "x.parquet lacks the columns 'b'")
    at.train_refuses(one(frame()[NAMES]), "x.parquet has no column 'label'", "There are: 'a', 'b', 'c'")
    at.train_refuses(
        one(frame(), ".parquet", "--label", "lable"), "x.parquet has no column 'lable'", "Did you mean 'label'?"
    )
    for option in ("--exclude", "--weight"):
        at.train_refuses(one(frame(), ".parquet", option, "bb"), "x.parquet has no column 'bb'")
    X, _ = arrays()
    at.predict_refuses("2 features", X[:, :2])


@bad("columns too many", BOTH, "refused by name; `--allow-extra` passes over them")
def extra(at: Doors) -> None:
    data = frame().assign(d=1.0, e=2.0)
    at.score_refuses(one(data), "x.parquet has the columns 'd', 'e' that the model does not know")
    pd.testing.assert_frame_equal(at.scores(one(data), "--allow-extra"), at.scores(one(frame())))
    X, _ = arrays()
    at.predict_refuses("4 features", np.hstack([X, X[:, :1]]))


@bad("two columns of one name", REFUSED, "the name is given")
def duplicate(at: Doors) -> None:
    at.train_refuses(text("a,b,b,label\n1,2,3,in\n2,3,4,out\n"), "x.csv: the column 'b' occurs twice")
    table = pa.table([[1.0, 2.0]] * 3 + [["in", "out"]], names=["a", "b", "b", "label"])

    def make(folder):
        pq.write_table(table, folder / "x.parquet")
        return [str(folder / "x.parquet")]

    at.train_refuses(make, "x.parquet: the column 'b' occurs twice")
    X, y = arrays()
    data = pd.DataFrame(X, columns=["a", "b", "b"])
    at.fit_refuses("column 'b' twice|'b' 2 times", data, y, kinds=("numpy",))
    lines = three(".csv", lambda f: f.__setitem__(1, f[1].rename(columns={"b": "bb"})))
    at.train_refuses(lines, "part-1.csv lacks 'b' and has 'bb' besides", "part-0.csv")


@bad("more landmarks than rows", HANDLED, "all rows but those held out are landmarks, with a message")
def many_landmarks(at: Doors) -> None:
    model = at.trains(one(frame(rows=60), ".csv"), "--n-components", "1500", "--solver", "psgd", "-v")
    assert 48 <= model.map.n_components < 60
    kept = "the holdout and 5 that measure the step"
    assert f"{model.map.n_components}: all rows except {kept}; 1,500 were asked for" in at.said
    X, y = arrays(60)
    # So few rows in memory are solved exactly, with folds in place of rows that are kept.
    exact = at.fits(X, y, n_components=1500, solver="auto")
    assert exact.n_components_ == 60
    assert exact.chosen_["n_components"] == "60: all different rows; 1,500 were asked for"


@bad("landmarks that repeat", HANDLED, "the whitening drops what repeats: finite, and as good")
def repeated(at: Doors) -> None:
    few = frame(rows=20)
    data = pd.concat([few] * 30, ignore_index=True)
    model = at.trains(one(data))
    assert np.isfinite(model.coef).all()
    X = data[NAMES].to_numpy(np.float32)
    assert np.isfinite(model.scores(X)).all()
    assert (model.predict(X) == data["label"]).mean() > 0.9
    given = np.repeat(X[:2], 16, axis=0)
    fitted = at.fits(X, data["label"].to_numpy(), landmarks=given)
    assert np.isfinite(fitted.decision_function(X)).all()
