"""Some fifty small fits of every solver, map, loss and storage: the models whose sums are kept (`tests.golden.sums`).

Everything is made through the public Python API or the command line, so that the cases outlive what is inside. A new
solver, map, loss or file format is a line here.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
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
COLUMNS = list("abcde")
CLASSES = np.array(["core", "crust é", "mantle, outer"])
KNOWN = {"gamma": 0.3, "n_components": 32, "alpha": 1e-4, "metric": "identity"}
GIVEN = "--n-components 32 --solver psgd --alpha 1e-4 --metric identity --baselines off --quiet"


@dataclass(frozen=True)
class Fitted:
    """What a case made: a model file where it has one, scores of new rows, and a figure of how good they are."""

    scores: NDArray[Any]
    error: float
    model: Path | None = None


def rows(n: int = N + NEW, seed: int = 11) -> NDArray[np.float32]:
    """Rows (n, P); the last NEW of them are never learned from. Doubles of Philox, which every numpy draws alike."""
    return np.random.Generator(np.random.Philox(seed)).uniform(-2.0, 2.0, (n, P)).astype(np.float32)


X = rows()
SQUARE = (X[:, :3].astype(np.float64) ** 2).sum(axis=1)
WEIGHT = np.random.Generator(np.random.Philox(12)).integers(0, 4, N).astype(np.float64)
LABELS: dict[str, NDArray[Any]] = {
    "two": SQUARE < 3.5,
    "three": CLASSES[np.digitize(SQUARE, [2.5, 5.0])],
    "number": SQUARE + X[:, 3] * X[:, 4],
    "targets": np.stack([SQUARE + X[:, 3], X[:, 0].astype(np.float64) * X[:, 4]], axis=1),
}


def texts(n: int = N + NEW) -> tuple[sp.csr_matrix, NDArray[np.int64]]:
    """Sparse rows of 5,000 columns, 12 of them stored, and which half of the columns most of these are in."""
    rng = np.random.Generator(np.random.Philox(13))
    y = rng.integers(0, 2, n)
    columns = rng.integers(0, 300, (n, 12)) + 2500 * (rng.random((n, 12)) < np.where(y, 0.7, 0.3)[:, None])
    X = sp.csr_matrix((np.ones(12 * n, np.float32), columns.ravel(), np.arange(n + 1) * 12), shape=(n, 5000))
    X.sum_duplicates()
    return X, y


def error_of(found: NDArray[Any], y: NDArray[Any]) -> float:
    """The share of wrong labels, or the root of the mean square in standard deviations."""
    if y.dtype.kind in "bUi":
        return float(np.mean(found != y))
    return float(np.sqrt(np.mean((found - y) ** 2) / y.var()))


def fitted(machine: Any, folder: Path, new: Any, y: NDArray[Any]) -> Fitted:
    """Save, read back, and judge new rows."""
    path = folder / "model.safetensors"
    dkernel.save(machine, path)
    scores = machine.decision_function(new) if hasattr(machine, "decision_function") else machine.predict(new)
    return Fitted(np.asarray(scores), error_of(np.asarray(machine.predict(new)), y), path)


def arrays(
    of: str, kernel: str = "gaussian", container: Callable[[Any], Any] = np.asarray, weight: bool = False, **more: Any
) -> Callable[[Path], Fitted]:
    """A fit to labels `of` in memory, or in what `container` makes of an array."""

    def run(folder: Path) -> Fitted:
        kind = dkernel.KernelRegressor if LABELS[of].dtype.kind == "f" else dkernel.KernelClassifier
        machine = kind(kernel, **{"solver": "psgd", **KNOWN, **more})
        machine.fit(container(X[:N]), container(LABELS[of][:N]), sample_weight=container(WEIGHT) if weight else None)
        return fitted(machine, folder, X[N:], LABELS[of][N:])

    return run


def exact(of: str, loss: str) -> Callable[[Path], Fitted]:
    """The optimum on all rows, by the solver that Python takes for few of them."""
    return arrays(of, loss=loss, solver="exact", n_components="auto")


def streamed(of: str, **more: Any) -> Callable[[Path], Fitted]:
    """Blocks as they come."""

    def run(folder: Path) -> Fitted:
        kind = dkernel.KernelRegressor if LABELS[of].dtype.kind == "f" else dkernel.KernelClassifier
        machine = kind("gaussian", **{**KNOWN, **more})
        for first in range(0, N, 150):
            part = slice(first, first + 150)
            classes = {} if kind is dkernel.KernelRegressor else {"classes": np.unique(LABELS[of])}
            machine.partial_fit(X[part], LABELS[of][part], sample_weight=WEIGHT[part], **classes)
        return fitted(machine, folder, X[N:], LABELS[of][N:])

    return run


def sparse(kernel: str, container: Callable[[Any], Any] = sp.csr_matrix, **more: Any) -> Callable[[Path], Fitted]:
    """A fit to rows that stay sparse."""

    def run(folder: Path) -> Fitted:
        rows, y = texts()
        settings = {"gamma": 0.1, "n_components": 32, "alpha": 1e-4, "solver": "psgd", **more}
        machine = dkernel.KernelClassifier(kernel, **settings)
        machine.fit(container(rows[:N]), y[:N])
        return fitted(machine, folder, rows[N:], y[N:])

    return run


def strings(folder: Path) -> Fitted:
    """Rows that are texts, by a kernel of texts."""
    rng = np.random.Generator(np.random.Philox(14))
    rows = np.array(["".join("abcd"[i] for i in row) for row in rng.integers(0, 4, (260, 12))], dtype=object)
    y = np.array([text.count("ab") > text.count("cd") for text in rows])
    machine = dkernel.KernelClassifier("SpectrumKernel(2)", n_components=24, alpha=1e-4, solver="psgd")
    return fitted(machine.fit(rows[:200], y[:200]), folder, rows[200:], y[200:])


def command(
    of: str, file: str, options: str = "--kernel gaussian", label: str = "label", **of_map: str
) -> Callable[[Path], Fitted]:
    """`dkernel train` on a file, then `dkernel score` of new rows; `of_map` is what has no option."""

    def run(folder: Path) -> Fitted:
        y = LABELS[of]
        learned, new = folder / f"learn{file}", folder / f"new{file}"
        write(learned, X[:N], y[:N], WEIGHT if "--weight" in options else None)
        write(new, X[N:], y[N:])
        size = f" --n-features {P} --zero-based no" if "svm" in file else ""
        model, out = folder / "model.safetensors", folder / "scores.npy"
        gamma = "" if "(" in options else " --gamma 0.3"  # a kernel with numbers has its own
        with patch("dkernel.cli.train.make_recipe", lambda values: make_recipe(values).replace(**of_map)):
            asked(f"train {learned} {GIVEN}{gamma} --label {label} --out {model} {options}{size}")
        asked(f"score {model} {new} --quiet --out {out} --write score{size}")
        guess = np.asarray(dkernel.load(model).model_.predict(X[N:]))
        return Fitted(np.load(out), error_of(guess, y[N:]), model)

    return run


def write(path: Path, X: NDArray[np.float32], y: NDArray[Any], weight: NDArray[np.float64] | None = None) -> None:
    """The same table in the format that the name's ending says; svmlight and NPY have numbers only."""
    names = np.searchsorted(CLASSES, y) if y.dtype.kind == "U" else y
    if path.suffix == ".npz":
        np.savez(path, X=X, label=y)
    elif path.suffix == ".npy":
        np.save(path, np.column_stack([X, y]))
    elif path.suffix == ".svm":
        dump_svmlight_file(X, names, str(path), zero_based=False)
    else:
        table = pd.DataFrame(X, columns=COLUMNS).assign(label=y, **({} if weight is None else {"weight": weight}))
        if path.suffix == ".parquet":
            table.to_parquet(path, index=False, row_group_size=200)
        else:
            table.to_csv(path, index=False)


def asked(line: str) -> None:
    """Run a command line in this process; anything but 0 is a failure that shows what was said."""
    result = CliRunner().invoke(main, line.split(), catch_exceptions=False)
    assert result.exit_code == 0, f"dkernel {line}\n{result.output}"


def described(machine: Any, *views: int) -> Callable[[Path], Fitted]:
    """What has no labels: components, clusters, columns of a map."""

    def run(folder: Path) -> Fitted:
        parts = [X[:, list(view)] for view in views] if views else [X]
        machine.fit(*(part[:N] for part in parts))
        found = machine.transform(parts[0][N:]) if hasattr(machine, "transform") else machine.decision_function(X[N:])
        path = folder / "model.safetensors" if hasattr(machine, "model_") else None
        if path is not None:
            dkernel.save(machine, path)
        return Fitted(np.asarray(found), 0.0, path)

    return run


def searched(folder: Path) -> Fitted:
    """A race of candidates and the fit of the best."""
    machine = dkernel.KernelClassifier("gaussian", metric="identity", n_components=32)
    tuner = dkernel.Tuner(machine, {"gamma": [0.03, 0.3], "alpha": [1e-6, 1e-4]}, budget="1passes")
    return fitted(tuner.fit(X[:N], LABELS["two"][:N]).best_estimator_, folder, X[N:], LABELS["two"][N:])


def chunked(array: Any) -> da.Array:
    """A Dask array of uneven chunks."""
    return da.from_array(array, chunks=((250, 100, 250), *((n,) for n in array.shape[1:])))


def sparse_chunks(rows: Any) -> da.Array:
    """A Dask array whose chunks are sparse."""
    return chunked(rows.toarray()).map_blocks(sp.csr_matrix) if sp.issparse(rows) else chunked(rows)


CASES: dict[str, Callable[[Path], Fitted]] = {
    # solvers
    "psgd": arrays("two"),
    "psgd, everything open": arrays("two", "auto", gamma="auto", alpha="auto", metric="auto"),
    "psgd, three passes, no polish": arrays("two", passes=3, polish=0),
    "psgd, float64": command("two", ".npz", "--kernel gaussian --dtype float64"),
    "lbfgs": arrays("two", solver="lbfgs", loss="logistic"),
    "pcg": arrays("number", solver="pcg"),
    "normal": arrays("number", solver="normal", alpha="auto"),
    "exact, squared": exact("number", "squared"),
    "exact, squared hinge": exact("two", "squared_hinge"),
    "exact, hinge": exact("two", "hinge"),
    "exact, quantile": exact("number", "quantile(0.7)"),
    "exact, softmax": exact("three", "softmax"),
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
    "sparse": sparse("gaussian"),
    "sparse, fourier": sparse("gaussian", features="fourier"),
    "sparse Dask array, lbfgs": sparse("linear", sparse_chunks, gamma="auto", solver="lbfgs"),
    "texts": strings,
    "Parquet, weights, three": command("three", ".parquet", "--kernel gaussian --weight weight"),
    "CSV, numbers": command("number", ".csv"),
    "NPY": command("two", ".npy", "--kernel gaussian --task classify", label="5"),
    "svmlight": command("two", ".svm"),
    # weights, targets, blocks, probabilities
    "weights": arrays("three", weight=True, class_weight="balanced"),
    "two targets": arrays("targets", alpha="auto"),
    "partial_fit": streamed("three", loss="logistic"),
    "partial_fit of numbers": streamed("number"),
    "platt": arrays("two", calibration="platt"),
    "search": searched,
    # what has no labels
    "one class": described(dkernel.OneClassSVM(0.1, gamma=0.3, n_components=32)),
    "k-means": described(dkernel.KernelKMeans(3, gamma=0.1, n_map_components=32)),
    "components": described(dkernel.KernelPCA(3, gamma=0.1, n_map_components=32)),
    "correlations": described(dkernel.KernelCCA(2, gamma=0.3, n_map_components=24), (0, 1, 2), (2, 3, 4)),
}  # fmt: skip


def make(name: str, folder: Path) -> Fitted:
    """Fit a case; that a solver stopped by its passes warns of it is no matter here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return CASES[name](folder)
