"""Make the golden models of a release: `python -m tests.golden.make 0.1.0`, once, and commit what it writes.

A folder of this name holds models and, in expected.npz, rows with what the models said of them on the day they were
made. tests/test_golden.py loads every folder for ever. A release gets a folder of its own; no file is written again.

Two answers are kept. `scores` are those of `Model.scores`, the compiled loops: within `TILES` of the largest possible
score, because compilers and later releases contract and order float32 operations as suits the processor; `machine`
says where they were made. `exact` is the plain numpy path, float64 columns @
coefficients, rounded once to float32: equal bit for bit anywhere, since only rows are kept whose float64 score is much
farther from a rounding boundary than any float64 arithmetic can move it.
"""

import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dkernel.data import from_arrays
from dkernel.execution.local import SerialExecutor
from dkernel.execution.versions import versions
from dkernel.model import Model
from dkernel.persistence import model_file
from dkernel.recipe import Recipe
from dkernel.training.fit import train

FOLDER = Path(__file__).parent
ROWS = 100
TILES = 2.0**-20
AWAY = 1e-13
CLASSES = np.array(["core", "crust é", "mantle, outer"])
RECIPES = {
    "nystrom": Recipe(
        solver="psgd", kernel="gaussian", n_components=40, gamma=0.3, alpha=1e-4, loss="logistic", seed=1
    ),
    "fourier": Recipe(
        solver="psgd",
        kernel="gaussian",
        n_components=32,
        features="fourier",
        gamma=0.2,
        alpha=1e-4,
        loss="squared",
        seed=2,
    ),
    "classes": Recipe(
        solver="psgd", n_components=24, kernel="Laplacian(gamma=0.2) + Linear()", alpha=1e-4, scale="minmax", seed=3
    ),
}


def targets(name: str, X: NDArray[np.float32]) -> NDArray:
    """What each model learns: a ball, a wave, and three shells named by text."""
    square = (X.astype(np.float64) ** 2).sum(axis=1)
    if name == "fourier":
        return np.sin(X[:, 0].astype(np.float64)) + X[:, 1]
    return square < 3.4 if name == "nystrom" else CLASSES[np.digitize(square, [2.0, 5.0])]


def numpy_scores(model: Model, X: NDArray[np.float32]) -> NDArray[np.float64]:
    """The scores (n, C) by plain numpy in float64."""
    columns = model.map.components(model.scaling.apply(X), "float64")
    return np.asarray(columns @ model.coef + model.intercept)


def largest(model: Model) -> NDArray[np.float64]:
    """What no score (C,) of a row like those of `rows` exceeds: the scale of its rounding errors."""
    columns = np.abs(model.map.components(model.scaling.apply(rows(2000, 9)), "float64")).max(axis=0)
    return columns @ np.abs(model.coef) + np.abs(model.intercept)


def rows(n: int, seed: int) -> NDArray[np.float32]:
    """Rows (n, 4) to learn from or to be judged by; doubles of a Philox stream, which every numpy draws alike."""
    return np.random.Generator(np.random.Philox(seed)).uniform(-2.0, 2.0, (n, 4)).astype(np.float32)


def settled(model: Model, X: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Rows whose float64 scores round to the same float32 when they move by AWAY of the largest."""
    scores, step = numpy_scores(model, X), AWAY * largest(model)
    return ((scores - step).astype(np.float32) == (scores + step).astype(np.float32)).all(axis=1)


def machine() -> str:
    """What decides the bits of compiled code: the processor's features, and the versions."""
    from llvmlite import binding

    features = ",".join(sorted(name for name, there in binding.get_host_cpu_features().items() if there))
    return f"{binding.get_host_cpu_name()} {features} {sorted(versions().items())}"


def main(version: str) -> None:
    folder = FOLDER / version
    folder.mkdir()  # a golden file is never written again
    X = rows(4 * ROWS, 8)
    models, keep = {}, np.ones(len(X), bool)
    for name, recipe in RECIPES.items():
        learned = rows(1500, 7)
        models[name] = train(from_arrays(learned, targets(name, learned)), recipe, SerialExecutor()).model
        keep &= settled(models[name], X)
    X = X[keep][:ROWS]
    expected = {"X": X, "machine": np.array(machine())}
    for name, model in models.items():
        model_file.save(model, folder / f"{name}.safetensors")
        expected |= {
            f"{name}.scores": model.scores(X),
            f"{name}.exact": numpy_scores(model, X).astype(np.float32),
            f"{name}.labels": model.predict(X),
        }
    np.savez(folder / "expected.npz", **expected)


if __name__ == "__main__":
    main(sys.argv[1])
