"""Every feature map against its number of columns: how near it comes to the kernel, the test error, time per feature.

On two data sets, letter (classes) and kin40k (regression), as they are used: standard columns, for kernels of the
inner product rows of length 1. The error of the kernel is |K-hat - K|_F / |K|_F and the largest |k-hat - k| on 1,000
rows; the test error is that of ridge regression on the features, the best of a path of alphas, in percent or as RMSE
over the label's standard deviation.

    python scripts/bench/maps.py --columns 256 1024 --png maps.png
"""

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg as sl
from numpy.typing import NDArray
from report import DATA, finish, folder, load

from dkernel import tiles
from dkernel.errors import DKernelError
from dkernel.features import FeatureMap, NystromMap, Scaling, choose_map
from dkernel.kernels import ArcCosine, Gaussian, Kernel, Laplacian, Polynomial

SETS = {"letter": (0.1, False), "kin40k": (0.2, True)}
ALPHAS = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
SAMPLINGS = ("iid", "orthogonal", "sobol", "halton", "structured", "fastfood")
CUBIC = Polynomial(degree=3, c=1.0)


def cases(gamma: float) -> list[tuple[str, Kernel, str, str, str]]:
    """Name, kernel, features, sampling, form of every map."""
    gaussian, laplacian = Gaussian(gamma=gamma), Laplacian(gamma=gamma)
    return [
        ("gaussian nystrom", gaussian, "nystrom", "auto", "pairs"),
        *((f"gaussian {s}", gaussian, "fourier", s, "pairs") for s in SAMPLINGS),
        ("gaussian iid, offset", gaussian, "fourier", "iid", "offset"),
        ("laplacian nystrom", laplacian, "nystrom", "auto", "pairs"),
        *((f"laplacian {s}", laplacian, "fourier", s, "pairs") for s in ("iid", "sobol")),
        ("cubic nystrom", CUBIC, "nystrom", "auto", "pairs"),
        ("cubic maclaurin", CUBIC, "maclaurin", "auto", "pairs"),
        ("cubic tensorsketch", CUBIC, "tensorsketch", "auto", "pairs"),
        ("cubic monomials", CUBIC, "exact", "auto", "pairs"),
        ("arc-cosine nystrom", ArcCosine(order=1), "nystrom", "auto", "pairs"),
        ("arc-cosine relu", ArcCosine(order=1), "random", "auto", "pairs"),
    ]


def nanoseconds(map: FeatureMap, X: NDArray[np.float32]) -> float:
    """Of one column of one row, scored tile by tile as in a pass."""
    coef, shift = np.zeros((map.n_columns, 1)), np.zeros(1)
    tiles.scores(map, X[: tiles.ROWS], coef, shift)
    best = min(_timed(map, X, coef, shift) for _ in range(3))
    return 1e9 * best / (len(X) * map.n_columns)


def _timed(map: FeatureMap, X: NDArray[np.float32], coef: NDArray, shift: NDArray) -> float:
    start = time.perf_counter()
    tiles.scores(map, X, coef, shift)
    return time.perf_counter() - start


def ridge_error(F: NDArray, Y: NDArray, F_test: NDArray, y_test: NDArray, classes: NDArray | None) -> float:
    """The least test error of ridge regression over ALPHAS."""
    gram, moment = F.T @ F / len(F), F.T @ Y / len(F)
    errors = []
    for alpha in ALPHAS:
        try:
            factor = sl.cho_factor(gram + alpha * np.trace(gram) / len(gram) * np.eye(len(gram)))
        except sl.LinAlgError:
            continue
        S = F_test @ sl.cho_solve(factor, moment)
        if classes is None:
            errors.append(float(np.sqrt(np.mean((S[:, 0] - y_test) ** 2)) / np.std(y_test)))
        else:
            errors.append(100 * float(np.mean(classes[S.argmax(axis=1)] != y_test)))
    return min(errors)


def run_set(place: Path, name: str, columns: list[int], rows: int, seed: int) -> list[dict[str, Any]]:
    """The lines of one data set."""
    gamma, regress = SETS[name]
    (X, y), (X_test, y_test) = load(place / "train.parquet"), load(place / "test.parquet")
    picked = np.random.default_rng(seed).permutation(len(X))[:rows]
    X, y = X[picked], y[picked]
    scaling = Scaling.of("standard", X.mean(axis=0), X.var(axis=0), X.min(axis=0), X.max(axis=0))
    standard = [scaling.apply(part) for part in (X, X_test)]
    unit = [part / np.linalg.norm(part, axis=1, keepdims=True) for part in standard]
    classes = None if regress else np.unique(y)
    Y = (y - y.mean())[:, None] if classes is None else np.where(y[:, None] == classes, 1.0, -1.0)
    target = y_test - y.mean() if classes is None else y_test
    lines = []
    for label, kernel, features, sampling, form in cases(gamma):
        A, B = unit if not kernel.shift_invariant else standard
        K = kernel(B[:1000].astype(np.float64))
        for n in columns:
            try:
                found = choose_map(kernel, X.shape[1], n, features, sampling, form, seed)
            except DKernelError as error:
                print(f"{label}, {n} columns: {error}")
                continue
            map = NystromMap(kernel, A[:n]) if isinstance(found, str) else found
            start = time.perf_counter()
            F, F_test = map(A), map(B)
            seconds = time.perf_counter() - start
            error = F_test[:1000] @ F_test[:1000].T - K
            lines.append({
                "data": name, "map": label, "columns": map.n_columns,
                "kernel error": float(np.linalg.norm(error) / np.linalg.norm(K)),
                "largest": float(np.abs(error).max()),
                "test error": ridge_error(F, Y, F_test, target, classes),
                "ns a feature": nanoseconds(map, B[:4096]), "seconds": seconds,
            })  # fmt: skip
    return lines


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Kernel error and test error against columns, a panel a data set; needs matplotlib (the extra `plot`)."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        print("no picture: matplotlib is not installed (pip install 'dkernel[plot]')")
        return
    names = list(dict.fromkeys(row["data"] for row in rows))
    figure, axes = plt.subplots(2, len(names), figsize=(7 * len(names), 9), squeeze=False)
    for j, name in enumerate(names):
        for i, what in enumerate(("kernel error", "test error")):
            for label in dict.fromkeys(row["map"] for row in rows):
                line = [row for row in rows if row["data"] == name and row["map"] == label]
                D, values = ([row[key] for row in line] for key in ("columns", what))
                axes[i, j].plot(D, values, marker="o", label=label)
            axes[i, j].set(
                title=name, xlabel="columns", ylabel=what, xscale="log", yscale="log" if i == 0 else "linear"
            )
    axes[0, -1].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main() -> None:
    """Measure, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help="folder that holds the data sets")
    parser.add_argument("--only", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--columns", nargs="+", type=int, default=[256, 512, 1024, 2048])
    parser.add_argument("--rows", type=int, default=10_000, help="of the training rows, at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--png", type=Path, help="draw a picture into this file")
    parser.add_argument("--json", action="store_true", help="print the JSON line alone")
    options = parser.parse_args()
    rows = []
    for name in options.only:
        rows += run_set(folder(options.data, name), name, options.columns, options.rows, options.seed)
    if options.png:
        draw(rows, options.png)
    finish("feature maps", rows, options.json, rows_of_training=options.rows)


if __name__ == "__main__":
    main()
