"""Feature maps against their number of components: how near they come to the kernel, test error, time per component.

On two data sets, letter (classes) and kin40k (regression), as they are used: standard features, for kernels of the
inner product rows of length 1, for chi-squared features from 0 to 1. The error of the kernel is |K-hat - K|_F / |K|_F
and the largest |k-hat - k| on 1,000 rows; the test error is that of ridge regression on the features, the best of a
path of alphas, in percent or as RMSE over the label's standard deviation. Time is of one component of one row, scored
tile by tile as in a pass, of one thread's own time.

    python scripts/bench/maps.py --table 1024
"""

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg as sl
from numpy.typing import NDArray
from report import finish, folder, markdown, parser, parts

from dkernel.errors import DKernelError
from dkernel.features import FeatureMap, FourierMap, NystromMap, Scaling, StackedMap, choose_map
from dkernel.kernels import AdditiveChi2, ArcCosine, Gaussian, Kernel, Laplacian, Linear, Matern, Polynomial
from dkernel.numerics import tiling
from dkernel.numerics.threads import one_blas_thread

SETS = {"letter": (0.1, False), "kin40k": (0.2, True)}
ALPHAS = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
SAMPLINGS = ("iid", "orthogonal", "sobol", "structured", "fastfood")
CUBIC = Polynomial(degree=3, c=1.0)
AVERAGED = 4


def cases(gamma: float) -> list[tuple[str, Kernel, str, str, str]]:
    """Name, kernel, features, sampling, form of every map."""
    gaussian, laplacian, matern = Gaussian(gamma=gamma), Laplacian(gamma=gamma), Matern(nu=1.5, length=gamma**-0.5)
    product = Gaussian(gamma=gamma / 2) * Polynomial(degree=2, c=1.0)
    return [
        ("Gaussian, Nystrom", gaussian, "nystrom", "auto", "pairs"),
        *((f"Gaussian, {s}", gaussian, "fourier", s, "pairs") for s in SAMPLINGS),
        ("Gaussian, iid, offset", gaussian, "fourier", "iid", "offset"),
        (f"Gaussian, average of {AVERAGED}", gaussian, "average", "orthogonal", "pairs"),
        ("Laplacian, Nystrom", laplacian, "nystrom", "auto", "pairs"),
        *((f"Laplacian, {s}", laplacian, "fourier", s, "pairs") for s in ("iid", "sobol")),
        ("Matern 3/2, Nystrom", matern, "nystrom", "auto", "pairs"),
        *((f"Matern 3/2, {s}", matern, "fourier", s, "pairs") for s in ("iid", "orthogonal", "structured")),
        ("cubic, Nystrom", CUBIC, "nystrom", "auto", "pairs"),
        ("cubic, Maclaurin", CUBIC, "maclaurin", "auto", "pairs"),
        ("cubic, TensorSketch", CUBIC, "tensorsketch", "auto", "pairs"),
        ("cubic, monomials", CUBIC, "exact", "auto", "pairs"),
        *(
            case
            for order in (0, 1)
            for case in (
                (f"arc-cosine {order}, Nystrom", ArcCosine(order=order), "nystrom", "auto", "pairs"),
                (f"arc-cosine {order}, ReLU", ArcCosine(order=order), "random", "auto", "pairs"),
            )
        ),
        ("chi-squared, Nystrom", AdditiveChi2(), "nystrom", "auto", "pairs"),
        ("chi-squared, sampled", AdditiveChi2(), "random", "auto", "pairs"),
        ("Gaussian + linear, stacked", gaussian + Linear(), "random", "auto", "pairs"),
        ("Gaussian x quadratic, TensorSketch", product, "random", "auto", "pairs"),
    ]


def draw_map(case: tuple[str, Kernel, str, str, str], rows: NDArray[np.float32], n: int, seed: int) -> FeatureMap:
    """The map of a case: landmarks are the first rows."""
    _, kernel, features, sampling, form = case
    if features == "nystrom":
        return NystromMap(kernel, rows[:n])
    if features == "average":
        size = n // AVERAGED // 2 * 2
        return StackedMap.average(
            [FourierMap.draw(kernel, rows.shape[1], size, AVERAGED * seed + i, sampling) for i in range(AVERAGED)]
        )
    found = choose_map(kernel, rows.shape[1], n, features, sampling, form, seed)
    assert not isinstance(found, str)
    return found


def nanoseconds(map: FeatureMap, X: NDArray[np.float32]) -> float:
    """Of one column of one row, scored tile by tile as in a pass."""
    coef, shift = np.zeros((map.n_components, 1)), np.zeros(1)
    tiling.scores(map, X[: tiling.TILE_ROWS], coef, shift)
    best = min(_time(map, X, coef, shift) for _ in range(3))
    return 1e9 * best / (len(X) * map.n_components)


def _time(map: FeatureMap, X: NDArray[np.float32], coef: NDArray, shift: NDArray) -> float:
    start = time.thread_time()
    tiling.scores(map, X, coef, shift)
    return time.thread_time() - start


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


def run_set(place: Path, name: str, components: list[int], rows: int, seed: int) -> list[dict[str, Any]]:
    """The lines of one data set."""
    gamma, regress = SETS[name]
    X, y, X_test, y_test = parts(place)
    picked = np.random.default_rng(seed).permutation(len(X))[:rows]
    X, y = X[picked], y[picked]
    moments = (X.mean(axis=0), X.var(axis=0), X.min(axis=0), X.max(axis=0))
    standard = [Scaling.of("standard", *moments).apply(part) for part in (X, X_test)]
    unit = [part / np.linalg.norm(part, axis=1, keepdims=True) for part in standard]
    shares = [np.clip(Scaling.of("minmax", *moments).apply(part), 0, 1) for part in (X, X_test)]
    classes = None if regress else np.unique(y)
    Y = (y - y.mean())[:, None] if classes is None else np.where(y[:, None] == classes, 1.0, -1.0)
    target = y_test - y.mean() if classes is None else y_test
    lines = []
    for case in cases(gamma):
        label, kernel = case[:2]
        A, B = shares if label.startswith("chi") else unit if isinstance(kernel, Polynomial | ArcCosine) else standard
        K = kernel(B[:1000].astype(np.float64))
        for n in components:
            try:
                map = draw_map(case, A, n, seed)
            except DKernelError as error:
                print(f"{label}, {n} components: {error}", file=sys.stderr)
                continue
            start = time.perf_counter()
            F, F_test = map(A), map(B)
            seconds = time.perf_counter() - start
            error = F_test[:1000] @ F_test[:1000].T - K
            lines.append({
                "data": name, "map": label, "asked": n, "components": map.n_components,
                "kernel error": float(np.linalg.norm(error) / np.linalg.norm(K)),
                "largest": float(np.abs(error).max()),
                "test error": ridge_error(F, Y, F_test, target, classes),
                "ns a component": nanoseconds(map, B[:4096]), "seconds": seconds,
            })  # fmt: skip
    return lines


def as_markdown(rows: list[dict[str, Any]], components: int) -> str:
    """The table of dkernel/features/README.md: a line a map, the figures of each data set side by side."""
    names = list(dict.fromkeys(row["data"] for row in rows))
    heads = ["map", *(f"{name}: {what}" for name in names for what in ("kernel", "test", "ns"))]
    lines = []
    for label in dict.fromkeys(row["map"] for row in rows):
        cells = [label]
        for name in names:
            found = [r for r in rows if (r["data"], r["map"], r["asked"]) == (name, label, components)]
            if not found:
                cells += ["", "", ""]
                continue
            row = found[0]
            few = "" if row["components"] == components else f" ({row['components']:,} components)"
            test = f"{row['test error']:.3f}" if SETS[name][1] else f"{row['test error']:.1f} %"
            kernel = "exact" if row["kernel error"] < 1e-12 else f"{row['kernel error']:.2g}"
            cells += [kernel + few, test, f"{row['ns a component']:.2f}"]
        lines.append(cells)
    return markdown(heads, lines)


def main() -> None:
    """Measure and print."""
    ask = parser(__doc__, data=True)
    ask.add_argument("--only", nargs="+", default=list(SETS), choices=list(SETS))
    ask.add_argument("--components", nargs="+", type=int, default=[256, 512, 1024, 2048])
    ask.add_argument("--rows", type=int, default=10_000, help="of the training rows, at most")
    ask.add_argument("--seed", type=int, default=0)
    ask.add_argument(
        "--table",
        type=int,
        metavar="COMPONENTS",
        help="print the table of dkernel/features/README.md, at this number of components",
    )
    options = ask.parse_args()
    rows = []
    with one_blas_thread():
        for name in options.only:
            rows += run_set(folder(options.data, name), name, options.components, options.rows, options.seed)
    if options.table and not options.json:
        print(as_markdown(rows, options.table))
    finish("feature maps", rows, options.json, rows_of_training=options.rows)


if __name__ == "__main__":
    main()
