"""Every estimator beside its exact twin: both errors, both times, and the n at which the twin gives up.

The twin is scikit-learn's where it has one, else the dense computation. It is fitted to n/4, n/2 and n rows; the n that
would take it an hour follows from the exponent of the last two, and where it holds a matrix of all pairs the n whose
matrices fill 16 GiB from their number. Times are seconds of CPU, of fit and prediction, so that what else the machine
does is not in them; those of dkernel are of a second fit, when the hot loops are compiled.

    python scripts/bench/twins.py --only SVC KernelRidge
"""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse.linalg
from report import finish, folder, parser, parts
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cluster import KMeans
from sklearn.cluster import SpectralClustering as DenseSpectral
from sklearn.datasets import make_moons
from sklearn.decomposition import KernelPCA as DensePCA
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import adjusted_rand_score, log_loss, roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR
from sklearn.svm import OneClassSVM as DenseOneClass

import dkernel
from dkernel import Gaussian, KernelClassifier, KernelRegressor

HOUR, MEMORY = 3600.0, 16 * 2**30
Rows = tuple[Any, Any, Any, Any]  # X, y, X_test, y_test
Answer = Callable[[Rows], float]


@dataclass(frozen=True)
class Twin:
    """One line of the table.

    Parameters
    ----------
    rows : n, and where they are from
    error, unit : what `exact` and `ours` return, given the rows, and in words
    matrices : of n x n numbers that the twin holds; 0 for none
    most : rows that the twin takes; 0 for any
    """

    ours: str
    exact: str
    data: str
    n: int
    unit: str
    run_ours: Answer
    run_exact: Answer
    matrices: int = 0
    most: int = 0


def classes(make: Callable[[int], Any], *, proba: bool = False) -> Answer:
    """Fit a classifier made for n rows; its error in percent, or its log-loss."""

    def run(rows: Rows) -> float:
        X, y, X_test, y_test = rows
        machine = make(len(X)).fit(X, y)
        if proba:
            return float(log_loss(y_test, machine.predict_proba(X_test)))
        return 100 * float((machine.predict(X_test) != y_test).mean())

    return run


def numbers(make: Callable[[int], Any]) -> Answer:
    """Fit a regression; its RMSE in standard deviations."""

    def run(rows: Rows) -> float:
        X, y, X_test, y_test = rows
        return float(np.sqrt(np.mean((make(len(X)).fit(X, y).predict(X_test) - y_test) ** 2)) / np.std(y_test))

    return run


def surprise(make: Callable[[int], Any]) -> Answer:
    """Fit a regression; the mean of -log p(y) on the test rows, y normal with its mean and deviation."""

    def run(rows: Rows) -> float:
        X, y, X_test, y_test = rows
        mean, std = make(len(X)).fit(X, y).predict(X_test, return_std=True)
        return float(np.mean(0.5 * ((y_test - mean) / std) ** 2 + np.log(std) + 0.5 * np.log(2 * np.pi)))

    return run


def left_out(make: Callable[[int], Any]) -> Answer:
    """Ten components; the share of the variance of φ(x) of test rows, |φ|² = 1, that they leave, in percent."""

    def run(rows: Rows) -> float:
        X, _, X_test, _ = rows
        machine = make(len(X)).fit(X)
        Z = machine.transform(X_test)
        K = Gaussian(gamma=0.05)
        total = 1.0 - float(K(X_test[:1000], X[:1000]).mean())  # E k(x, x) - E k(x, z)
        return 100 * (1.0 - float((np.asarray(Z) ** 2).sum(axis=1).mean()) / total)

    return run


def agreement(make: Callable[[int], Any]) -> Answer:
    """Clusters; 1 - the adjusted Rand index with the truth."""

    def run(rows: Rows) -> float:
        return 1.0 - float(adjusted_rand_score(rows[1], make(len(rows[0])).fit(rows[0]).labels_))

    return run


def dense_k_means(rows: Rows) -> float:
    """Kernel k-means by k-means on the rows of the root of the whole Gram matrix."""
    K = Gaussian(gamma=0.05)(rows[0], rows[0])
    values, U = scipy.linalg.eigh(K)
    labels = KMeans(2, n_init=10, random_state=0).fit_predict(U * np.sqrt(np.maximum(values, 0)))
    return 1.0 - float(adjusted_rand_score(rows[1], labels))


def dense_cca(rows: Rows) -> float:
    """Regularized kernel CCA by the eigenvectors of the whole problem."""
    X, Y, X_test, Y_test = rows
    n, k = len(X), Gaussian(gamma=0.5)
    K, L = k(X, X), k(Y, Y)
    K, L = K - K.mean(axis=0), L - L.mean(axis=0)
    K, L = K - K.mean(axis=1)[:, None], L - L.mean(axis=1)[:, None]
    eye = 1e-3 * n * np.eye(n)
    left, right = scipy.linalg.solve(K + eye, L, assume_a="pos"), scipy.linalg.solve(L + eye, K, assume_a="pos")
    values, a = scipy.sparse.linalg.eigs(left @ right, k=1)
    a = np.real(a[:, 0])
    f, g = k(X_test, X) @ (a - a.mean()), k(Y_test, Y) @ (b := right @ a)
    del values, b
    return 1.0 - abs(float(np.corrcoef(f, g)[0, 1]))


def our_cca(rows: Rows) -> float:
    """The same pair on features."""
    X, Y, X_test, Y_test = rows
    machine = dkernel.KernelCCA(1, gamma=0.5, n_map_components=256, alpha=1e-3).fit(X, Y)
    return 1.0 - float(machine.correlations(X_test, Y_test)[0])


def outliers(make: Callable[[int], Any]) -> Answer:
    """Learn the first class alone; 1 - the area under the curve that tells the second from it."""

    def run(rows: Rows) -> float:
        X, y, X_test, y_test = rows
        machine = make(len(X)).fit(X[y == 1])
        return 1.0 - float(roc_auc_score(y_test == 1, machine.decision_function(X_test)))

    return run


def mismatch(make: Callable[[int], Any], kernel: Any) -> Answer:
    """Columns of all rows; how far their inner products are from the kernel at 1,000 test rows, in percent of it."""

    def run(rows: Rows) -> float:
        machine = make(len(rows[0])).fit(rows[0])
        machine.transform(rows[0])
        Z, K = machine.transform(rows[2][:1000]), kernel(rows[2][:1000], rows[2][:1000])
        return 100 * float(np.linalg.norm(Z @ Z.T - K) / np.linalg.norm(K))

    return run


def gram(kernel: Any) -> Answer:
    """The kernel of all pairs of rows, which has no error."""

    def run(rows: Rows) -> float:
        kernel(rows[0], rows[0])
        return 0.0

    return run


def dense_logistic(rows: Rows) -> float:
    """Logistic regression on the rows of the root of the whole Gram matrix, where it is that of the kernel."""
    X, y, X_test, y_test = rows
    k = Gaussian(gamma=0.05)
    values, U = scipy.linalg.eigh(k(X, X))
    U, roots = U[:, values > 1e-8], np.sqrt(values[values > 1e-8])
    machine = LogisticRegression(C=1.0, tol=1e-4, max_iter=1000).fit(U * roots, y)
    P = machine.predict_proba(k(X_test, X) @ (U / roots))
    return float(log_loss(y_test, P, labels=machine.classes_))


class Process:
    """A Gaussian process with the ratio of noise and prior that the ridge regression has, 0.01, and the size of both
    that is likeliest: y^T K^{-1} y / n."""

    def fit(self, X: Any, y: Any) -> "Process":
        """Keep the process of unit size, and the size."""
        kernel = ConstantKernel(100.0) * RBF(np.sqrt(0.5 / 0.05)) + WhiteKernel(1.0)
        self.unit = GaussianProcessRegressor(kernel, optimizer=None, normalize_y=True).fit(X, y)
        self.size = float(np.sqrt(self.unit.alpha_ @ self.unit.y_train_ / len(y)))
        return self

    def predict(self, X: Any, return_std: bool = True) -> Any:
        """Means and deviations."""
        mean, std = self.unit.predict(X, return_std=return_std)
        return mean, self.size * std


def twins() -> tuple[Twin, ...]:
    """The table, line by line. C = 1 / (α n) of scikit-learn, and α n for its alpha."""
    same: dict[str, Any] = {"scale": "none", "metric": "identity", "random_state": 0}
    gauss: dict[str, Any] = {**same, "kernel": Gaussian(gamma=0.05), "n_components": 1000}

    def hinge(n: int) -> KernelClassifier:
        return KernelClassifier(**gauss, loss="hinge", alpha=1 / n, passes=2)

    def calibrated(n: int) -> KernelClassifier:
        return KernelClassifier(**gauss, loss="hinge", alpha=1 / n, passes=2, calibration="temperature")

    return (
        Twin("KernelClassifier, hinge", "SVC", "magic", 15000, "error, %",
             classes(hinge), classes(lambda _: SVC(gamma=0.05, C=1.0))),
        Twin("the same, calibration=\"temperature\"", "CalibratedClassifierCV(SVC)", "magic", 8000, "log-loss",
             classes(calibrated, proba=True),
             classes(lambda _: CalibratedClassifierCV(SVC(gamma=0.05), cv=5, ensemble=False), proba=True)),
        Twin("KernelClassifier, perceptron", "KernelPerceptron", "magic", 8000, "error, %",
             classes(lambda _: KernelClassifier(**gauss, loss="perceptron", alpha=1e-6, passes=2)),
             classes(lambda _: dkernel.KernelPerceptron(Gaussian(gamma=0.05), max_iter=10)), 1, 20_000),
        Twin("KernelClassifier, logistic", "LogisticRegression on K^(1/2)", "magic", 3000, "log-loss",
             classes(lambda n: KernelClassifier(**gauss, loss="logistic", alpha=1 / n, passes=2), proba=True),
             dense_logistic, 3),
        Twin("KernelClassifier, softmax", "LogisticRegression on K^(1/2)", "letter", 3000, "log-loss",
             classes(lambda n: KernelClassifier(**gauss, loss="softmax", alpha=1 / n, solver="lbfgs"), proba=True),
             dense_logistic, 3),
        Twin("Tuner", "GridSearchCV(SVC)", "magic", 8000, "error, %",
             classes(lambda n: dkernel.Tuner(
                 KernelClassifier("gaussian", **same, n_components=1000, loss="hinge"),
                 {"gamma": [0.02, 0.05, 0.2], "alpha": [1 / n, 0.1 / n]}, budget="2passes")),
             classes(lambda _: GridSearchCV(SVC(), {"gamma": [0.02, 0.05, 0.2], "C": [1.0, 10.0]}, cv=3))),
        Twin("KernelRegressor, normal", "KernelRidge", "kin40k", 8000, "RMSE, sd",
             numbers(lambda n: KernelRegressor(**gauss, solver="normal", alpha=0.01 / n)),
             numbers(lambda _: KernelRidge(kernel="rbf", gamma=0.05, alpha=0.01)), 2),
        Twin("the same, return_std", "GaussianProcessRegressor", "kin40k", 4000, "-log p(y)",
             surprise(lambda n: KernelRegressor(**gauss, solver="normal", alpha=0.01 / n)),
             surprise(lambda _: Process()), 4),
        Twin("KernelRegressor, epsilon_insensitive", "SVR", "california", 10000, "RMSE, sd",
             numbers(lambda n: KernelRegressor(**gauss, loss="epsilon_insensitive(0.1)", alpha=1 / n, passes=2)),
             numbers(lambda _: SVR(gamma=0.05, C=1.0, epsilon=0.1))),
        Twin("KernelPCA, 10", "KernelPCA", "letter", 5000, "variance left, %",
             left_out(lambda _: dkernel.KernelPCA(10, kernel=Gaussian(gamma=0.05), n_map_components=500)),
             left_out(lambda _: DensePCA(10, kernel="rbf", gamma=0.05, random_state=0)), 2),
        Twin("KernelKMeans", "k-means on K^(1/2)", "rings", 3000, "1 - Rand index",
             agreement(lambda _: dkernel.KernelKMeans(2, kernel=Gaussian(gamma=0.05), n_map_components=128,
                                                      random_state=0)),
             dense_k_means, 3),
        Twin("SpectralClustering", "SpectralClustering", "moons", 3000, "1 - Rand index",
             agreement(lambda _: dkernel.SpectralClustering(2, kernel=Gaussian(gamma=20.0), n_map_components=256,
                                                            random_state=0)),
             agreement(lambda _: DenseSpectral(2, gamma=20.0, random_state=0)), 2),
        Twin("KernelCCA", "eigenvectors of all pairs", "angle", 2000, "1 - correlation", our_cca, dense_cca, 6),
        Twin("OneClassSVM", "OneClassSVM", "magic", 15000, "1 - AUC",
             outliers(lambda _: dkernel.OneClassSVM(0.1, kernel=Gaussian(gamma=0.05), n_components=500)),
             outliers(lambda _: DenseOneClass(gamma=0.05, nu=0.1))),
        *maps(),
    )  # fmt: skip


def maps() -> tuple[Twin, ...]:
    """Lines of the transformers: the twin of a map is the Gram matrix of its kernel."""
    near, square = Gaussian(gamma=0.05), dkernel.Polynomial(degree=2, c=1.0)
    both = near + 0.1 * dkernel.Linear()
    kinds = (
        (dkernel.NystromFeatures, near), (dkernel.FourierFeatures, near), (dkernel.KernelFeatures, both),
        (partial(dkernel.KernelFeatures, features="maclaurin"), square),
        (partial(dkernel.KernelFeatures, features="tensorsketch"), square),
        (dkernel.BinningFeatures, dkernel.Laplacian(gamma=0.05)),
    )  # fmt: skip
    return tuple(
        Twin(getattr(kind, "__name__", repr(kind)), f"Gram matrix, {kernel!r}", "magic", 8000, "of the kernel, %",
             mismatch(partial(_map, kind, kernel), kernel), gram(kernel), 1)
        for kind, kernel in kinds
    )  # fmt: skip


def _map(kind: Any, kernel: Any, _: int) -> Any:
    if kind is dkernel.BinningFeatures:
        return kind(kernel.gamma, n_grids=1000, random_state=0)
    return kind(kernel, n_components=1000, random_state=0)


def rings(n: int, rng: np.random.Generator) -> tuple[Any, Any]:
    """Two rings, one in the other, that no plane parts."""
    angle, ring = rng.uniform(0, 2 * np.pi, n), rng.integers(0, 2, n)
    r = np.where(ring, 5.0, 1.0) + 0.1 * rng.normal(size=n)
    return np.stack([r * np.cos(angle), r * np.sin(angle)], axis=1), ring


def views(n: int, rng: np.random.Generator) -> tuple[Any, Any]:
    """Two views of an angle that no line relates."""
    angle = rng.uniform(0, 2 * np.pi, n)
    X = np.stack([np.cos(angle), rng.normal(size=n)], axis=1)
    return X, np.stack([np.sin(angle) ** 2, rng.normal(size=n)], axis=1)


def rows_of(name: str, data: Path, seed: int) -> Rows:
    """Training and test rows, the columns standardized and in an order of the seed."""
    rng = np.random.default_rng(seed)
    if name == "rings":
        return (*rings(20_000, rng), *rings(1000, rng))
    if name == "moons":
        return (
            *make_moons(20_000, noise=0.05, random_state=seed),
            *make_moons(1000, noise=0.05, random_state=seed + 1),
        )
    if name == "angle":
        return (*views(20_000, rng), *views(2000, rng))
    place = folder(data, name)
    X, y, X_test, y_test = parts(place)
    scaler, order = StandardScaler().fit(X), rng.permutation(len(X))
    if np.issubdtype(y.dtype, np.floating):
        mean, width = y.mean(), y.std()
        y, y_test = (y - mean) / width, (y_test - mean) / width
    few = slice(0, 3000)
    return scaler.transform(X)[order], y[order], scaler.transform(X_test)[few], y_test[few]


def time_run(run: Answer, rows: Rows, n: int) -> tuple[float, float]:
    """Error and seconds of CPU of a run on the first n rows."""
    X, y, X_test, y_test = rows
    start = time.process_time()
    error = run((X[:n], y[:n], X_test, y_test))
    return error, time.process_time() - start


def line_of(twin: Twin, data: Path, seed: int, limit: float) -> dict[str, Any]:
    """One line: the twin at growing n until the limit of seconds, and ours at the last of them."""
    rows = rows_of(twin.data, data, seed)
    sizes = [size for size in (twin.n // 4, twin.n // 2, twin.n) if size <= len(rows[0])]
    tried: list[tuple[int, float]] = []
    for n in sizes:
        error, seconds = time_run(twin.run_exact, rows, n)
        tried.append((n, seconds))
        if seconds > limit and len(tried) > 1:  # two sizes tell how the seconds grow
            break
    n = tried[-1][0]
    time_run(twin.run_ours, rows, min(n, 1000))
    mine, own = time_run(twin.run_ours, rows, n)
    (before, short), (last, long) = tried[-2:]
    exponent = max(1.0, float(np.log(long / short) / np.log(last / before)))
    by_time = last * (HOUR / long) ** (1 / exponent)
    by_memory = (MEMORY / 8 / twin.matrices) ** 0.5 if twin.matrices else np.inf
    found = {"dkernel": twin.ours, "twin": twin.exact, "data": twin.data, "rows": n, "error": twin.unit}
    found |= {"ours": mine, "twins": error, "ours_s": own, "twins_s": long, "exponent": exponent}
    end, why = min((by_time, "time"), (by_memory, "memory"), (twin.most or np.inf, "memory"))
    return found | {"gives_up": float(f"{end:.2g}"), "for": why}


def main(arguments: list[str] | None = None) -> int:
    every = twins()
    ask = parser(__doc__, data=True)
    ask.add_argument("--only", nargs="+", metavar="TWIN", help="names of twins, or beginnings of them")
    ask.add_argument("--seed", type=int, default=0)
    ask.add_argument("--limit", type=float, default=30.0, help="seconds of a twin after which n grows no more")
    args = ask.parse_args(arguments)
    chosen = [t for t in every if not args.only or any(t.exact.startswith(name) for name in args.only)]
    made = []
    for twin in chosen:
        made.append(line_of(twin, args.data, args.seed, args.limit))
        print(made[-1], file=sys.stderr, flush=True)
    finish("exact twins", made, args.json, limit=args.limit)
    return 0


if __name__ == "__main__":
    sys.exit(main())
