"""One point of the study, in a process of its own: fit, predict, write; its line of JSON is what is printed.

Started by study.py, which keeps all libraries to one thread. Compiled loops are loaded by a small fit before the
measured one. Seconds are those of the processor, user and system, so that what else the machine does is not in them.
"""

import argparse
import json
import pickle
import resource
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from quadratic import write_rows
from report import boosted_trees, error_of, load
from study_points import BELOW, METHODS, SETS, TREES, Point

from dkernel.data.collections.arrays import from_arrays
from dkernel.data.opening import open_source
from dkernel.data.source import Source
from dkernel.kernels import parse
from dkernel.model.model import Model
from dkernel.model.model_file import save
from dkernel.model.recipe import Recipe
from dkernel.streaming.execution.local import SerialExecutor
from dkernel.training.fit import train

TESTED = 20_000  # rows of the made sets
PREDICTED = 20_000  # rows, at least, whose prediction is timed: the test rows as often as that needs
BLOCK = 8192  # rows of a prediction
NOISE = 0.1  # deviation of that of the made sets; over frequencies and shifts the cosines' is 1
WAVES = 256  # cosines of a made target
LAWS = {"smooth": (0.6, 6), "rough": (0.25, 5)}
"""Made set -> scale of its frequencies, seed."""
KERNEL_ROWS = 1000  # test rows on which the map is compared with its kernel


def target(name: str, inputs: int) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
    """Frequencies (inputs, waves), shifts and weights of the cosines whose sum is to be learned.

    Frequencies are those of a Gaussian kernel (smooth), or of the exponential kernel exp(-s |x - z|), whose law has
    heavy tails (rough). So the target is nearly a draw from the Gaussian process of that kernel.
    """
    scale, law = LAWS[name]
    rng = np.random.default_rng([law, inputs])
    W = scale * rng.standard_normal((inputs, WAVES))
    if name == "rough":
        W /= np.abs(rng.standard_normal(WAVES))
    shifts, weights = rng.uniform(0, 2 * np.pi, WAVES), rng.standard_normal(WAVES)
    scaled = weights / np.sqrt(0.5 * np.square(weights).sum())
    return W.astype(np.float32), shifts.astype(np.float32), scaled.astype(np.float32)


def draw(name: str, first: int, n: int, columns: int, seed: int) -> tuple[NDArray[np.float32], NDArray[Any]]:
    """X and y of the step of a made set that begins with row `first`."""
    rng = np.random.default_rng([seed, first, LAWS[name][1]])
    X = rng.standard_normal((n, columns), np.float32)
    W, shifts, weights = target(name, columns)
    y = np.concatenate([np.cos(part @ W + shifts) @ weights for part in np.array_split(X, 1 + n // 4096)])
    return X, y + NOISE * rng.standard_normal(n, np.float32)


@dataclass(frozen=True)
class Rows:
    """A set: rows to learn from, in memory or as a folder of files, and the rows to test on."""

    X: NDArray[np.float32]
    y: NDArray[Any]
    X_test: NDArray[np.float32]
    y_test: NDArray[Any]
    folder: Path | None = None

    def source(self, label: str) -> Source:
        """What dkernel reads."""
        return from_arrays(self.X, self.y) if self.folder is None else open_source(self.folder, label=label)


def rows_of(point: Point, data: Path, place: Path) -> Rows:
    """The rows of a point; those of a made set are written where they are not there yet."""
    name, about = point.set, SETS[point.set]
    if about.made:
        make = partial(write_rows, place, columns=about.inputs, draw=partial(draw, name), name=name)
        train, test = make(point.rows), _stack(make(TESTED, seed=1))
        held = _stack(train) if METHODS[point.method].settings is None else test[:1]
        return Rows(held[:, :-1], held[:, -1], test[:, :-1], test[:, -1], train)
    if name == "diamonds":  # has columns of text
        parts = [pd.read_parquet(data / name / f"{part}.parquet") for part in ("train", "test")]
        y, y_test = (part.pop("price").to_numpy(np.float64) for part in parts)
        first = pd.get_dummies(parts[0], dtype=np.float32)
        second = pd.get_dummies(parts[1], dtype=np.float32).reindex(columns=first.columns, fill_value=0)
        X, X_test = (part.to_numpy(np.float32) for part in (first, second))
    else:
        (X, y), (X_test, y_test) = (load(data / name / f"{part}.parquet") for part in ("train", "test"))
    if name == "covtype":
        y, y_test = (y == 2).astype(np.int64), (y_test == 2).astype(np.int64)
    return Rows(X[: point.rows], y[: point.rows], X_test, y_test)


def _stack(folder: Path) -> NDArray[np.float32]:
    return np.concatenate([np.load(path) for path in sorted(folder.glob("*.npy"))])


def recipe_of(point: Point, chosen: Mapping[str, Any]) -> Recipe:
    """The recipe of a point; `chosen` has gamma and alpha of its set, of the kernel that its method has."""
    about, method = SETS[point.set], METHODS[point.method]
    settings = dict(method.settings or {})
    if method.kernel and not point.chooses:
        settings["alpha"] = chosen["alpha"]
    if method.kernel == "gaussian":
        settings |= {"kernel": "gaussian", "gamma": chosen["gamma"] * point.width}
    if method.kernel == "polynomial":  # 1 on the diagonal, about: standard inputs have a mean square of 1
        p = about.inputs
        settings["kernel"] = f"{(2.0 * p) ** -3!r} * Polynomial(degree=3, c={p})"
    if method.size:
        settings |= {"n_components": BELOW} if settings["features"] == "nystrom" else {}
        stage, _, name = method.size.rpartition(".")
        settings |= {stage: f"{settings[stage]}({name}={point.size})"} if stage else {name: point.size}
    task = {"task": "regress", "loss": "squared"} if about.regress else {"task": "classify", "loss": "squared_hinge"}
    given = {"solver": "psgd", "scale": "standard", "metric": "identity", "seed": point.seed}
    return Recipe(**given | task | settings)


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def ours(point: Point, rows: Rows, chosen: Mapping[str, Any]) -> tuple[Callable[..., Any], dict[str, Any]]:
    """A machine of dkernel: what predicts, and the figures of its fit."""
    recipe = recipe_of(point, chosen)
    source, label = rows.source, str(SETS[point.set].inputs)
    train(*_few(rows, recipe), SerialExecutor())
    begun = cpu()
    model = train(source(label), recipe, SerialExecutor()).model
    found: dict[str, Any] = {"fit_s": cpu() - begun, "peak_mib": peak_mib(), "components": model.map.n_components}
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "model.safetensors"
        save(model, path)
        found["bytes"] = path.stat().st_size
    found |= {"alpha": float(model.recipe.alpha), "local": model.recipe.local}
    kernel = parse(model.recipe.kernel)
    if point.chooses and hasattr(kernel, "gamma"):
        found["gamma"] = float(kernel.gamma)
    if METHODS[point.method].kernel and recipe.local == "none":
        found["kernel_error"] = kernel_error(model, rows.X_test[:KERNEL_ROWS])
    return model.predict, found


def _few(rows: Rows, recipe: Recipe) -> tuple[Source, Recipe]:
    """A small fit that loads the same compiled loops."""
    few = {"n_components": 64} if recipe.features not in ("none", "exact") else {}
    few |= {"local": {"grids": "grids(n_grids=16)", "cells": "cells(rows=256)"}.get(recipe.local_stage, recipe.local)}
    X, y = (rows.X, rows.y) if rows.folder is None else (rows.X_test, rows.y_test)
    step = max(1, len(X) // 2000)
    return from_arrays(X[::step], y[::step]), recipe.replace(**few)


def kernel_error(model: Model, X: NDArray[Any]) -> float:
    """|K-hat - K| / |K| of rows."""
    rows = model.scaling.apply(X)
    features = np.asarray(model.map(rows), np.float64)
    K = parse(model.recipe.kernel)(np.asarray(rows, np.float64))
    return float(np.linalg.norm(features @ features.T - K) / np.linalg.norm(K))


def exact(point: Point, rows: Rows, chosen: Mapping[str, Any]) -> tuple[Callable[..., Any], dict[str, Any]]:
    """scikit-learn's support vector machine or ridge regression, of the same kernel and alpha."""
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    strength, gamma = chosen["alpha"] * point.rows, chosen["gamma"]
    machine = (
        TransformedTargetRegressor(KernelRidge(alpha=strength, kernel="rbf", gamma=gamma), transformer=StandardScaler())
        if SETS[point.set].regress
        else SVC(C=1 / strength, gamma=gamma, cache_size=1000)
    )
    return _others(make_pipeline(StandardScaler(), machine), rows)


def trees(point: Point, rows: Rows, chosen: Mapping[str, Any]) -> tuple[Callable[..., Any], dict[str, Any]]:  # noqa: ARG001
    machine = boosted_trees(SETS[point.set].regress, point.size, TREES[point.size], seed=point.seed)
    return _others(machine, rows)


def _others(machine: Any, rows: Rows) -> tuple[Callable[..., Any], dict[str, Any]]:
    begun = cpu()
    machine.fit(rows.X, rows.y)
    found = {"fit_s": cpu() - begun, "peak_mib": peak_mib(), "bytes": len(pickle.dumps(machine))}
    return machine.predict, found


def measure(point: Point, chosen: Mapping[str, Any], data: Path, place: Path) -> dict[str, Any]:
    """The line of a point."""
    rows = rows_of(point, data, place)
    fit = {"exact": exact, "LightGBM": trees}.get(point.method, ours)
    predict, found = fit(point, rows, chosen)
    blocks = [rows.X_test[first : first + BLOCK] for first in range(0, len(rows.X_test), BLOCK)]
    times = -(-PREDICTED // len(rows.X_test))
    predict(blocks[0][:64])  # loads what was compiled
    begun = cpu()
    answers = [[predict(block) for block in blocks] for _ in range(times)]
    seconds = cpu() - begun
    answer = np.concatenate(answers[0])
    found["predict_s"] = 1e6 * seconds / (times * len(rows.X_test))
    found["error"] = error_of(answer, rows.y_test, SETS[point.set].regress)
    return {"tested": len(rows.y_test), **found}


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ask.add_argument("asked", type=json.loads, help="the point, what was chosen, and the folders, as JSON")
    asked = ask.parse_args().asked
    found = measure(Point(**asked["point"]), asked["chosen"], Path(asked["data"]), Path(asked["place"]))
    line = {key: float(f"{value:.5g}") if isinstance(value, float) else value for key, value in found.items()}
    print(json.dumps({**line, "date": time.strftime("%Y-%m-%d", time.gmtime())}))


if __name__ == "__main__":
    main()
