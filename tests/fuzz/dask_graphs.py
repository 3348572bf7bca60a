"""Random graphs of Dask: dataframes and arrays from every kind of source, what is done to their rows, and every answer.

A dataframe has the features a and b, text (site), whole numbers (k), a target (y), a label (word) and a number of its
own for each row (id). Its index is 0, 1, ... in each quarter again.
"""

from collections.abc import Callable, Collection
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import scipy.sparse as sp
from dask.delayed import delayed
from hypothesis import strategies as st
from numpy.typing import NDArray

import dkernel

F, TOLERANCE = ["a", "b"], 1e-6
ROWS, QUARTERS = 240, 4


@cache
def rows(seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, ROWS))
    frame = pd.DataFrame({"a": a, "b": b, "site": rng.choice(["north", "south"], ROWS), "k": rng.integers(0, 5, ROWS)})
    frame["y"], frame["word"] = np.sin(a) + b, np.array(["in", "on", "out"])[np.digitize(a * a + b * b, [1.0, 2.5])]
    frame["quarter"], frame["id"] = np.repeat(np.arange(QUARTERS), ROWS // QUARTERS), np.arange(ROWS)
    return frame.set_index(np.tile(np.arange(ROWS // QUARTERS), QUARTERS))


# Ways to have the rows in Dask.


def _quarter(number: int) -> pd.DataFrame:
    return rows()[rows().quarter == number]


def _from_files(folder: Path, write: str, read: Callable[..., Any], suffix: str) -> Any:
    for i in range(QUARTERS):
        getattr(_quarter(i), write)(folder / f"{i}.{suffix}", index=suffix != "csv")
    return read(f"{folder}/*.{suffix}")


def _from_delayed(verify: bool) -> Any:
    return dd.from_delayed([delayed(_quarter)(i) for i in range(QUARTERS)], meta=rows()[:0], verify_meta=verify)


SOURCES: dict[str, Callable[[Path], Any]] = {
    "from_pandas": lambda _: dd.from_pandas(rows().reset_index(drop=True), npartitions=QUARTERS),
    "from_pandas, a repeated index": lambda _: dd.from_pandas(rows().sort_index(kind="stable"), npartitions=QUARTERS),
    "from_pandas, unsorted": lambda _: dd.from_pandas(rows(), npartitions=QUARTERS, sort=False),
    "one partition": lambda _: dd.from_pandas(rows(), npartitions=1, sort=False),
    "read_parquet": lambda folder: _from_files(folder, "to_parquet", dd.read_parquet, "parquet"),
    "read_csv": lambda folder: _from_files(folder, "to_csv", dd.read_csv, "csv"),
    "from_map": lambda _: dd.from_map(_quarter, range(QUARTERS), meta=rows()[:0]),
    "from_delayed": lambda _: _from_delayed(verify=True),
    "from_delayed, unverified": lambda _: _from_delayed(verify=False),
}

STEPS: dict[str, Callable[[Any], Any]] = {
    "filter": lambda q: q[q.a > 0.2],
    **{f"empty quarter {i}": lambda q, i=i: q[q.quarter != i] for i in range(QUARTERS)},
    "concatenate": lambda q: dd.concat([q, q[q.b > 0]]),
    **{f"repartition to {n}": lambda q, n=n: q.repartition(npartitions=n) for n in (1, 2, 3)},
    "reset_index": lambda q: q.reset_index(drop=True),
    "assign": lambda q: q.assign(b=q.b / 2),
    "clear_divisions": lambda q: q.clear_divisions(),
    "partitions": lambda q: q.partitions[1:] if q.npartitions > 1 else q,
    "merge": lambda q: q.merge(pd.DataFrame({"k": range(5), "z": range(5)}), on="k", how="left"),
    "persist": lambda q: q.persist(),
    "set_index": lambda q: q.assign(i=q.k).set_index("i"),
    "shuffle": lambda q: q.shuffle("k", npartitions=3),
    "sort_values": lambda q: q.sort_values("b"),
}
SORTS = {"set_index", "sort_values"}
SHUFFLES = {*SORTS, "shuffle"}  # equal rows may come in any order


# What estimators say of rows: of a dataframe lazily, of pandas at once.

Ask = Callable[[Any], Any]


class Known(NamedTuple):
    """Name -> an answer to the columns a and b; name -> one to a table of all columns."""

    rows: dict[str, Ask]
    tables: dict[str, Ask]


@cache
def answers() -> Known:
    """Every answer of every estimator, fitted to small rows."""
    f, quick = rows(1), {"gamma": 0.5, "alpha": 1e-3, "local": "none"}
    small = quick | {"n_components": 24, "solver": "psgd", "holdout": 0.3, "scale": "standard", "metric": "identity"}
    X = f[F]
    number = dkernel.KernelRegressor("gaussian", **small).fit(X, f.y).conformalize(X, f.y, groups=f.site)
    word = dkernel.KernelClassifier("gaussian", loss="logistic", **small).fit(X, f.word)
    word.conformalize(X, f.word, groups=f.site)
    sign = dkernel.KernelClassifier("gaussian", **small).fit(X, f.a > 0)
    two = dkernel.KernelRegressor("gaussian", **small).fit(X, f[["y", "a"]])
    spread = dkernel.KernelRegressor("gaussian", n_components=24, solver="normal", **quick).fit(X, f.y)
    table = dkernel.KernelRegressor("gaussian", n_components=24, **quick).fit(f[[*F, "site"]], f.y)
    perceptron = dkernel.KernelPerceptron("gaussian", gamma=0.5, max_iter=5).fit(X, f.word)
    one = dkernel.OneClassSVM(gamma=0.5, n_components=24).fit(X)
    means = dkernel.KernelKMeans(3, gamma=0.5, n_map_components=24, random_state=0).fit(X)
    spectral = dkernel.SpectralClustering(3, gamma=0.5, n_map_components=24, random_state=0).fit(X)
    cca = dkernel.KernelCCA(1, gamma=0.5, n_map_components=24).fit(X, f[["y"]])
    maps = (
        dkernel.KernelPCA(2, gamma=0.5, n_map_components=24),
        dkernel.NystromFeatures(gamma=0.5, n_components=3),
        dkernel.FourierFeatures(gamma=0.5, n_components=4),
        dkernel.KernelFeatures(gamma=0.5, n_components=3),
        dkernel.KernelFeatures("Polynomial(degree=2)", features="maclaurin", n_components=4),
        dkernel.KernelFeatures("Polynomial(degree=2)", features="tensorsketch", n_components=4),
    )
    of_rows: dict[str, Ask] = {
        "predict": number.predict,
        "interval": number.predict_interval,
        "several targets": two.predict,
        "intervals": two.predict_interval,
        "deviation": lambda X: spread.predict(X, return_std=True)[1],
        "labels": word.predict,
        "scores": word.decision_function,
        "probabilities": word.predict_proba,
        "logarithms": word.predict_log_proba,
        "sets": word.predict_set,
        "truth": sign.predict,
        "score": sign.decision_function,
        "perceptron": perceptron.predict,
        "perceptron's scores": perceptron.decision_function,
        "inliers": one.predict,
        "scores of inliers": one.score_samples,
        "clusters": means.predict,
        "distances": means.transform,
        "spectral clusters": spectral.predict,
        "view": cca.transform,
        **{type(made).__name__: made.fit(X).transform for made in maps},
    }
    return Known(
        of_rows,
        {
            **{name: lambda q, ask=ask: ask(q[F]) for name, ask in of_rows.items()},
            "table": lambda q: table.predict(q[[*F, "site"]]),
            "interval of groups": lambda q: number.predict_interval(q[F], groups=q.site),
            "sets of groups": lambda q: word.predict_set(q[F], groups=q.site),
            "other view": lambda q: cca.transform(q[F], q[["y"]])[1],
            "error": lambda q: number.predict(q[F]) - q.y,
            "right": lambda q: word.predict(q[F]) == q.word,
        },
    )


# What is done with an answer: each gives rows in memory with the answer as columns p0, p1, ...


def _columns(lazy: Any) -> dict[str, Any]:
    return {"p0": lazy} if lazy.ndim == 1 else {f"p{j}": lazy[name] for j, name in enumerate(lazy.columns)}


def _named(lazy: Any) -> Any:
    if lazy.ndim == 1:
        return lazy.to_frame("p0")
    return lazy.rename(columns=dict(zip(lazy.columns, _columns(lazy), strict=True)))


def _assign_values(part: pd.DataFrame, answer: Any) -> pd.DataFrame:
    values = np.atleast_2d(answer.to_numpy().T).T
    return part.assign(**{f"p{j}": values[:, j] for j in range(values.shape[1])})


def assigned(q: Any, lazy: Any, _: Path) -> pd.DataFrame:
    whole = q.assign(**_columns(lazy))
    found = whole.compute()
    assert (list(whole.dtypes), whole.index.name) == (list(found.dtypes), found.index.name)
    return found


def written(q: Any, lazy: Any, folder: Path) -> pd.DataFrame:
    q.assign(**_columns(lazy)).to_parquet(folder / "out")
    return dd.read_parquet(folder / "out").compute()


def written_alone(q: Any, lazy: Any, folder: Path) -> pd.DataFrame:
    alone = lazy if lazy.ndim == 2 else lazy.to_frame() if lazy.name else lazy.to_frame("p0")  # "right" has no name
    alone.to_parquet(folder / "out")
    found = dd.read_parquet(folder / "out").compute()
    return _assign_values(q.compute(), found)


def joined(q: Any, lazy: Any, _: Path) -> pd.DataFrame:
    return dd.concat([q, _named(lazy)], axis=1).compute()


def mapped(q: Any, lazy: Any, _: Path) -> pd.DataFrame:
    return q.map_partitions(_assign_values, lazy, meta=q._meta, enforce_metadata=False).compute()


def as_array(q: Any, lazy: Any, _: Path) -> pd.DataFrame:
    return _assign_values(q.compute(), pd.DataFrame(lazy.to_dask_array(lengths=True).compute()))


def as_values(q: Any, lazy: Any, _: Path) -> pd.DataFrame:
    return _assign_values(q.compute(), pd.DataFrame(lazy.values.compute()))


USES = {use.__name__: use for use in (assigned, written, written_alone, joined, mapped, as_array, as_values)}
OF_ARRAYS = {"as_array", "as_values"}
APART = {*OF_ARRAYS, "written_alone"}  # rows and answer are computed by two calls
# Of an unverified frame Dask makes no array, and of files that it reads together, none with lengths.
NOT_BY_DASK = {"from_delayed, unverified": OF_ARRAYS, "read_parquet": {"as_array"}}


def try_table(draw: Any, folder: Path, steps: Collection[str] = STEPS) -> None:
    """An answer in a graph of dataframes is that of its rows in memory, which come in their order."""
    source = draw(st.sampled_from([*SOURCES]))
    done = draw(st.lists(st.sampled_from([*steps]), max_size=3, unique=True))
    shuffled = bool(SHUFFLES & {*done})
    unfit = (APART if shuffled else set()) | NOT_BY_DASK.get(source, set())
    use = draw(st.sampled_from([use for use in USES if use not in unfit]))
    ask = answers().tables[draw(st.sampled_from([*answers().tables]))]
    q = SOURCES[source](folder)
    for step in done:
        q = STEPS[step](q)
    found = USES[use](q, ask(q), folder)
    columns = [column for column in found if column[0] == "p" and column[1:].isdigit()]
    if len(found):
        same(found[columns].to_numpy(), ask(found))
    if not shuffled:
        plain = q.compute()
        pd.testing.assert_frame_equal(found[list(plain)], plain, check_dtype=False)


def same(found: NDArray[Any], wanted: Any) -> None:
    wanted = np.asarray(wanted)
    found = found.reshape(wanted.shape)
    if wanted.dtype.kind == "f":
        np.testing.assert_allclose(found.astype(float), wanted, rtol=0, atol=TOLERANCE)
    else:
        np.testing.assert_array_equal(found, wanted)


# Arrays.


def _cut(seed: int = 0) -> da.Array:
    return da.from_array(rows(seed)[F].to_numpy(), chunks=(ROWS // QUARTERS, 2))


def _features(number: int) -> NDArray[Any]:
    return _quarter(number)[F].to_numpy()


ARRAYS: dict[str, Callable[[], da.Array]] = {
    "from_array": _cut,
    "one chunk": lambda: da.from_array(rows()[F].to_numpy(), chunks=-1),
    "chunks of columns": lambda: _cut().rechunk((50, 1)),
    "values": lambda: SOURCES["from_map"](Path())[F].values,
    "to_dask_array": lambda: SOURCES["from_pandas, unsorted"](Path())[F].to_dask_array(lengths=True),
    "from_delayed": lambda: da.concatenate([da.from_delayed(delayed(_features)(i), (60, 2), float) for i in range(4)]),
    "float32": lambda: _cut().astype("float32"),
    "sparse blocks": lambda: _cut().map_blocks(sp.csr_matrix),
}
ARRAY_STEPS: dict[str, Callable[[Any], Any]] = {
    "filter": lambda X: X[X[:, 0] > 0.2],
    "slice": lambda X: X[17:] if np.isfinite(X.shape[0]) else X,
    "empty chunk": lambda X: da.concatenate([X, X[:0], X]) if np.isfinite(X.shape[0]) else X,
    "concatenate": lambda X: da.concatenate([X, _cut(2)], allow_unknown_chunksizes=True),
    "halve": lambda X: X / 2,
    "persist": lambda X: X.persist(),
    "count": lambda X: X.compute_chunk_sizes(),
}
ARRAY_USES = ("computed", "in blocks", "beside", "in a dataframe")


def try_array(draw: Any) -> None:
    """An answer in a graph of arrays is that of their rows in memory, in their order."""
    source, use = draw(st.sampled_from([*ARRAYS])), draw(st.sampled_from(ARRAY_USES))
    steps = [] if source == "sparse blocks" else [*ARRAY_STEPS]
    ask = answers().rows[draw(st.sampled_from([*answers().rows]))]
    X = ARRAYS[source]()
    for step in draw(st.lists(st.sampled_from(steps), max_size=3, unique=True) if steps else st.just([])):
        X = ARRAY_STEPS[step](X)
    lazy = ask(X)
    if use == "in blocks":
        found = np.concatenate([lazy.blocks[i].compute() for i in range(lazy.numblocks[0])])
    elif use == "beside" and lazy.ndim <= 2 and lazy.dtype.kind != "U" and source != "sparse blocks":
        columns = lazy if lazy.ndim == 2 else lazy[:, None]
        found = da.concatenate([X, columns], axis=1, allow_unknown_chunksizes=True)[:, 2:].compute()
    elif use == "in a dataframe" and lazy.ndim <= 2:
        found = dd.from_dask_array(lazy).compute().to_numpy()
    else:
        found = lazy.compute()
    here = X.compute()
    same(found, ask(here.toarray() if hasattr(here, "toarray") else here))
