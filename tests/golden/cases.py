"""Some fifty small fits of every solver, map, loss and storage: the models whose sums are kept (`tests.golden.sums`).

Everything is made through the public Python API or the command line, so that the cases outlive what is inside. A new
solver, map, loss or file format is a line here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import dask.array as da
import numpy as np
import pandas as pd
import scipy.sparse as sp
from click.testing import CliRunner
from numpy.typing import NDArray
from sklearn.datasets import dump_svmlight_file

import dkernel
from dkernel.cli import main
from dkernel.cli.train import make_recipe

N, P, NEW = 600, 5, 200
CLASSES = np.array(["core", "crust é", "mantle, outer"])
KNOWN = {"gamma": 0.3, "n_components": 32, "alpha": 1e-4, "metric": "identity"}
GIVEN = "--n-components 32 --solver psgd --alpha 1e-4 --metric identity --baselines off --quiet"


@dataclass(frozen=True)
class Fitted:
    """What a case made: a model file where it has one, scores of new rows, and a figure of how good they are."""

    scores: NDArray[Any]
    error: float
    model: Path | None = None


def draw(seed: int) -> np.random.Generator:
    """Doubles and integers of Philox, which every numpy draws alike."""
    return np.random.Generator(np.random.Philox(seed))


def draw_sparse() -> tuple[sp.csr_matrix, NDArray[np.int64]]:
    """Sparse rows of 5,000 columns, 12 of them stored, and which half of the columns most of these are in."""
    rng, n = draw(13), N + NEW
    y = rng.integers(0, 2, n)
    columns = rng.integers(0, 300, (n, 12)) + 2500 * (rng.random((n, 12)) < np.where(y, 0.7, 0.3)[:, None])
    X = sp.csr_matrix((np.ones(12 * n, np.float32), columns.ravel(), np.arange(n + 1) * 12), shape=(n, 5000))
    X.sum_duplicates()
    return X, y


X = draw(11).uniform(-2.0, 2.0, (N + NEW, P)).astype(np.float32)
SQUARE = (X[:, :3].astype(np.float64) ** 2).sum(axis=1)
WEIGHT = draw(12).integers(0, 4, N).astype(np.float64)
TEXTS = np.array(["".join("abcd"[i] for i in row) for row in draw(14).integers(0, 4, (260, 12))], dtype=object)
# Rows and labels, of which the last are never learned from.
DATA: dict[str, tuple[Any, NDArray[Any]]] = {
    "two": (X, SQUARE < 3.5),
    "three": (X, CLASSES[np.digitize(SQUARE, [2.5, 5.0])]),
    "number": (X, SQUARE + X[:, 3] * X[:, 4]),
    "targets": (X, np.stack([SQUARE + X[:, 3], X[:, 0].astype(np.float64) * X[:, 4]], axis=1)),
    "sparse": draw_sparse(),
    "texts": (TEXTS, np.array([text.count("ab") > text.count("cd") for text in TEXTS])),
}


def error_of(found: NDArray[Any], y: NDArray[Any]) -> float:
    """The share of wrong labels, or the root of the mean square in standard deviations."""
    if y.dtype.kind in "bUi":
        return float(np.mean(found != y))
    return float(np.sqrt(np.mean((found - y) ** 2) / y.var()))


def judge(machine: Any, new: Any, y: NDArray[Any], folder: Path) -> Fitted:
    """Save a fitted machine, and score and judge new rows."""
    dkernel.save(machine, folder / "model.safetensors")
    scores = machine.decision_function(new) if hasattr(machine, "decision_function") else machine.predict(new)
    error = error_of(np.asarray(machine.predict(new)), y)
    return Fitted(np.asarray(scores), error, folder / "model.safetensors")


def postpone(fit: Callable[..., Fitted]) -> Callable[..., Callable[..., Fitted]]:
    """What is told a case now, and its `folder` when the case is fitted."""
    return lambda *words, **more: partial(fit, *words, **more)


@postpone
def arrays(
    of: str,
    kernel: str = "gaussian",
    container: Callable[[Any], Any] = lambda rows: rows,
    *,
    folder: Path,
    weight: bool = False,
    n: int = N,
    **more: Any,
) -> Fitted:
    """A fit to the first `n` rows of some data, in memory or in what `container` makes of an array."""
    rows, y = DATA[of]
    kind = dkernel.KernelRegressor if y.dtype.kind == "f" else dkernel.KernelClassifier
    machine = kind(kernel, **{"solver": "psgd", **KNOWN, **more})
    machine.fit(container(rows[:n]), container(y[:n]), sample_weight=container(WEIGHT) if weight else None)
    return judge(machine, rows[n:], y[n:], folder)


# The optimum on all rows, by the solver that Python takes for few of them.
exact = partial(arrays, solver="exact", n_components="auto")
sparse = partial(arrays, "sparse", metric="auto")


@postpone
def streamed(of: str, *, folder: Path, **more: Any) -> Fitted:
    """Blocks as they come."""
    y = DATA[of][1]
    numbers = y.dtype.kind == "f"
    machine = (dkernel.KernelRegressor if numbers else dkernel.KernelClassifier)("gaussian", **KNOWN, **more)
    for part in np.split(np.arange(N), 4):
        classes = {} if numbers else {"classes": np.unique(y)}
        machine.partial_fit(X[part], y[part], sample_weight=WEIGHT[part], **classes)
    return judge(machine, X[N:], y[N:], folder)


@postpone
def searched(of: str, *, folder: Path) -> Fitted:
    """A race of candidates and the fit of the best."""
    machine = dkernel.KernelClassifier("gaussian", metric="identity", n_components=32)
    tuner = dkernel.Tuner(machine, {"gamma": [0.03, 0.3], "alpha": [1e-6, 1e-4]}, budget="1passes")
    y = DATA[of][1]
    return judge(tuner.fit(X[:N], y[:N]).best_estimator_, X[N:], y[N:], folder)


@postpone
def described(machine: Callable[[], Any], *views: list[int], folder: Path) -> Fitted:
    """What has no labels: components, clusters, columns of a map."""
    parts = [X[:, view] for view in views] or [X]
    machine = machine().fit(*(part[:N] for part in parts))
    found = machine.transform(parts[0][N:]) if hasattr(machine, "transform") else machine.decision_function(X[N:])
    path = folder / "model.safetensors" if hasattr(machine, "model_") else None
    if path is not None:
        dkernel.save(machine, path)
    return Fitted(np.asarray(found), 0.0, path)


@postpone
def command(
    of: str, file: str, options: str = "--kernel gaussian", label: str = "label", *, folder: Path, **of_map: str
) -> Fitted:
    """`dkernel train` on a file, then `dkernel score` of new rows; `of_map` is what has no option."""
    y = DATA[of][1]
    learned, new = folder / f"learn{file}", folder / f"new{file}"
    write(learned, X[:N], y[:N], **({"weight": WEIGHT} if "--weight" in options else {}))
    write(new, X[N:], y[N:])
    size = f" --n-features {P}" if "svm" in file else ""
    model, out = folder / "model.safetensors", folder / "scores.npy"
    gamma = "" if "(" in options else " --gamma 0.3"  # a kernel with numbers has its own
    with patch("dkernel.cli.train.make_recipe", lambda values: make_recipe(values).replace(**of_map)):
        run(f"train {learned} {GIVEN}{gamma} --label {label} --out {model} {options}{size}")
    run(f"score {model} {new} --quiet --out {out} --write score")
    return Fitted(np.load(out), error_of(np.asarray(dkernel.load(model).model_.predict(X[N:])), y[N:]), model)


def write(path: Path, X: NDArray[np.float32], y: NDArray[Any], **more: NDArray[np.float64]) -> None:
    """The same table in the format that the name's ending says; svmlight and NPY have numbers only."""
    if path.suffix == ".npz":
        np.savez(path, X=X, label=y)
    elif path.suffix == ".npy":
        np.save(path, np.column_stack([X, y]))
    elif path.suffix == ".svm":
        dump_svmlight_file(X, y, str(path), zero_based=False)
    else:
        table = pd.DataFrame(X, columns=list("abcde")).assign(label=y, **more)
        if path.suffix == ".parquet":
            table.to_parquet(path, index=False, row_group_size=200)
        else:
            table.to_csv(path, index=False)


def run(line: str) -> str:
    """What a command line prints in this process; anything but 0 is a failure that shows what was said."""
    result = CliRunner().invoke(main, line.split(), catch_exceptions=False)
    assert result.exit_code == 0, f"dkernel {line}\n{result.output}"
    return result.stdout


def chunked(array: Any) -> da.Array:
    """A Dask array of uneven chunks, which are sparse where the array is."""
    if sp.issparse(array):
        return chunked(array.toarray()).map_blocks(sp.csr_matrix)
    return da.from_array(array, chunks=((250, 100, 250), *((n,) for n in array.shape[1:])))


CASES: dict[str, Callable[..., Fitted]] = {
    # solvers
    "psgd": arrays("two"),
    "psgd, everything open": arrays("two", "auto", gamma="auto", alpha="auto", metric="auto"),
    "psgd, three passes, no polish": arrays("two", passes=3, polish=0),
    "psgd, float64": command("two", ".npz", "--kernel gaussian --dtype float64"),
    "lbfgs": arrays("two", solver="lbfgs", loss="logistic"),
    "pcg": arrays("number", solver="pcg"),
    "normal": arrays("number", solver="normal", alpha="auto"),
    "exact, squared": exact("number", loss="squared"),
    "exact, squared hinge": exact("two", loss="squared_hinge"),
    "exact, hinge": exact("two", loss="hinge"),
    "exact, quantile": exact("number", loss="quantile(0.7)"),
    "exact, softmax": exact("three", loss="softmax"),
    # the local stage
    "grids, three classes": arrays("three", local="grids(n_grids=64)"),
    "grids, regression": arrays("number", local="grids(n_grids=32)"),
    "cells, three classes": arrays("three", local="cells(rows=100)"),
    "cells, regression": arrays("number", local="cells(rows=150)"),
    # losses
    "hinge": arrays("two", loss="hinge"),
    "logistic": arrays("three", loss="logistic"),
    "softmax": arrays("three", loss="softmax"),
    "perceptron": arrays("two", loss="perceptron"),
    "squared": arrays("number"),
    "huber": arrays("number", loss="huber(1.0)"),
    "epsilon insensitive": arrays("number", loss="epsilon_insensitive(0.2)"),
    "quantile": arrays("number", loss="quantile(0.9)"),
    # kernels and landmarks
    "laplacian, stratified": arrays("three", "laplacian", landmarks="stratified"),
    "matern, kmeans": arrays("two", "Matern(nu=1.5, length=1.5)", landmarks="kmeans", gamma="auto"),
    "sum, leverage": arrays("two", "Gaussian(gamma=0.3) + 0.5 * Linear()", landmarks="leverage", gamma="auto"),
    "polynomial, rpcholesky": arrays("two", "Polynomial(degree=3, c=1.0)", landmarks="rpcholesky", gamma="auto"),
    "metric": arrays("two", gamma="auto", metric="full"),
    # random and exact maps
    "fourier": arrays("two", features="fourier"),
    **{
        f"fourier, {' '.join(of_map.values())}": command("two", file, f"--kernel {kernel} --features fourier", **of_map)
        for of_map, file, kernel in (
            ({"sampling": "iid"}, ".parquet", "gaussian"),
            ({"sampling": "sobol"}, ".npz", "Matern(nu=1.5,length=2.0)"),
            ({"sampling": "structured"}, ".csv", "gaussian"),
            ({"sampling": "fastfood"}, ".csv", "gaussian"),
        )
    },
    "maclaurin": arrays("two", "Polynomial(degree=2, c=1.0)", features="maclaurin", gamma="auto"),
    "tensorsketch": arrays("two", "Polynomial(degree=2, c=1.0)", features="tensorsketch", gamma="auto"),
    "exact map": arrays("number", "Polynomial(degree=2, c=1.0)", features="exact", gamma="auto", n_components="auto"),
    # storage
    "Dask array": arrays("two", container=chunked),
    "Dask array, weights": arrays("number", container=chunked, weight=True, solver="auto", n_components="auto"),
    "sparse": sparse(gamma=0.1),
    "sparse, fourier": sparse(gamma=0.1, features="fourier"),
    "sparse Dask array, lbfgs": sparse("linear", chunked, gamma="auto", solver="lbfgs"),
    "texts": arrays("texts", "SpectrumKernel(2)", n=200, n_components=24, gamma="auto", metric="auto"),
    "Parquet, weights, three": command("three", ".parquet", "--kernel gaussian --weight weight"),
    "CSV, numbers": command("number", ".csv"),
    "NPY": command("two", ".npy", "--kernel gaussian --task classify", label="5"),
    "svmlight": command("two", ".svm"),
    # weights, targets, blocks, probabilities
    "weights": arrays("three", weight=True, class_weight="balanced"),
    "two targets": arrays("targets", alpha="auto"),
    "partial_fit": streamed("three", loss="logistic"),
    "partial_fit of numbers": streamed("number"),
    "temperature": arrays("two", calibration="temperature"),
    "search": searched("two"),
    # what has no labels
    "one class": described(lambda: dkernel.OneClassSVM(0.1, gamma=0.3, n_components=32)),
    "k-means": described(lambda: dkernel.KernelKMeans(3, gamma=0.1, n_map_components=32)),
    "components": described(lambda: dkernel.KernelPCA(3, gamma=0.1, n_map_components=32)),
    "correlations": described(lambda: dkernel.KernelCCA(2, gamma=0.3, n_map_components=24), [0, 1, 2], [2, 3, 4]),
}  # fmt: skip
