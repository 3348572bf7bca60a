"""002, M. Belkin, "Statistical Machine Learning and Kernel Methods II": slides of 2014."""

import resource

import numpy as np
from sklearn.datasets import load_digits
from texts.rows import Picture, Table, exponent, listed, seconds, smallest_eigenvalue

from dkernel import FeatureMapKernel, Gaussian, KernelClassifier, KernelRegressor, register
from dkernel.features import FourierMap, NystromMap

KERNEL = Gaussian(gamma=0.5)


def run(small: bool) -> Table:
    """All rows of the slides, in their order."""
    table = Table("002", "Belkin, Statistical machine learning and kernel methods II (slides, 2014)", small)
    norms(table)
    gaps(table)
    least_squares(table)
    feature_maps(table)
    eigenfunctions(table)
    sizes(table)
    return table


def waves(n: int, seed: int = 0, noise: float = 0.3) -> tuple[np.ndarray, np.ndarray]:
    """Noisy values of sin 3x."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (n, 1))
    return X, np.sin(3 * X[:, 0]) + noise * rng.standard_normal(n)


def machine(alpha: float) -> KernelRegressor:
    return KernelRegressor(Gaussian(gamma=2.0), alpha=alpha, solver="exact", scale="none")


def norms(table: Table) -> None:
    X, y = waves(150)
    alphas = [1e-6, 1e-4, 1e-2, 1e0]
    fits = [machine(alpha).fit(X, y) for alpha in alphas]
    grid = np.linspace(-3, 3, 2000)[:, None]
    way = [float(np.abs(np.diff(fit.predict(grid))).sum()) for fit in fits]
    norm = [float(fit.norm_) for fit in fits]
    table.row(
        "Summary of lecture I",
        "Bigger norm, wigglier function",
        f"|f|_H {listed(norm)} and way up and down {listed(way)}, alpha {listed(alphas)}",
        norm == sorted(norm, reverse=True) and way == sorted(way, reverse=True),
    )


def gaps(table: Table) -> None:
    counts = [50, 100, 200] if table.small else [50, 100, 200, 400, 800]
    alphas = [1e-4, 1e-3, 1e-2, 1e-1]
    seeds = range(4 if table.small else 8)
    new, truth = waves(2000, 99)
    found = np.zeros((len(counts), len(alphas)))
    best = np.zeros(len(counts))
    for i, n in enumerate(counts):
        tests = np.zeros(len(alphas))
        for j, alpha in enumerate(alphas):
            for seed in seeds:
                X, y = waves(n, seed)
                K = Gaussian(gamma=2.0)
                a = np.linalg.solve(K(X) + alpha * n * np.eye(n), y)
                train = float(np.mean((K(X) @ a - y) ** 2))
                test = float(np.mean((K(new, X) @ a - truth) ** 2))
                found[i, j] += abs(test - train) / len(seeds)
                tests[j] += test / len(seeds)
        best[i] = tests.min() - 0.09  # the noise is the error of the best function of all
    scaled = found * np.array(alphas) * np.sqrt(counts)[:, None]
    in_n, in_alpha = exponent(counts, found[:, 1]), exponent(alphas, found[-1])
    table.row(
        "Theorem I",
        "|train - test| < 1 / (lambda sqrt(n))",
        f"gap times lambda sqrt(n) at most {scaled.max():.3f}; gap n^{in_n:.2f}, lambda^{in_alpha:.2f} "
        "(the bound: -0.5 and -1)",
        scaled.max() < 1 and in_n < -0.3,
    )
    table.row(
        "Theorem II",
        "|test - optimal| < h(lambda, n)",
        f"excess of the best lambda {listed(best.tolist(), 2)} for n of {listed(counts)}",
        best[-1] < best[0],
    )
    lines = {f"lambda = {alpha:g}": (counts, found[:, j].tolist()) for j, alpha in enumerate(alphas)}
    table.pictures.append(Picture("gap", "002: gap of training and test error", "n", "|train - test|", lines))


def least_squares(table: Table) -> None:
    X, y = waves(200)
    lam, n = 0.1, 200
    K = Gaussian(gamma=2.0)
    own = machine(lam / n).fit(X, y)
    saddle = np.block([[K(X) + lam * np.eye(n), np.ones((n, 1))], [np.ones((1, n)), np.zeros((1, 1))]])
    solved = np.linalg.solve(saddle, np.append(y, 0.0))
    off = np.abs(own.predict(X) - K(X) @ solved[:-1] - solved[-1]).max()
    a = np.linalg.solve(K(X) + lam * np.eye(n), y)
    table.row(
        "Kernel least squares",
        "alpha = (K + lambda I)^{-1} y",
        f"off by {off:.0e} of the same equations with an intercept (the slide's function has none and differs by "
        f"{np.abs(own.predict(X) - K(X) @ a).max():.0e})",
        off < 1e-3,
    )
    rng, widths = np.random.default_rng(0), [100, 200, 400, 800]
    rows = [rng.standard_normal((1500, d)) for d in widths]
    power = exponent(widths, [seconds(lambda R=R: KERNEL(R)) for R in rows])
    table.row(
        "How efficient?",
        "Training n^2 d, testing n d; linear n d^2 and d",
        f"kernel matrix d^{power:.2f} for d of {listed(widths)}; the powers of n are in 000 and 003",
        0 < power < 1.3,
    )


def any_map(X: np.ndarray) -> np.ndarray:
    """Three functions of the first column that nothing connects."""
    return np.column_stack([np.sin(5 * X[:, 0]), X[:, 0] > 0, np.exp(-X[:, 0])])


def feature_maps(table: Table) -> None:
    register("texts_any_map", any_map)
    X = np.random.default_rng(0).standard_normal((80, 2))
    least = smallest_eigenvalue(FeatureMapKernel("texts_any_map")(X))
    table.row(
        "Kernels for free", "Any feature map gives a PSD kernel", f"smallest eigenvalue {least:.0e}", least > -1e-12
    )
    F = NystromMap(KERNEL, X)(X)
    off = np.abs(F @ F.T - KERNEL(X)).max()
    Q: np.ndarray = np.linalg.qr(np.random.default_rng(1).standard_normal((F.shape[1], F.shape[1])))[0]
    turned = np.abs(F @ Q @ Q.T @ F.T - KERNEL(X)).max()
    table.row(
        "Feature map interpretation",
        "Every kernel has a map, phi(x) = K(x, .), and it is not unique",
        f"with all points as landmarks off by {off:.0e}; any rotation of it too, {turned:.0e}",
        off < 1e-6,
    )
    table.row("Linear kernels", "Three notes of caution", "remarks, nothing to measure", None)
    m = 20_000
    phi = FourierMap.draw(KERNEL, 2, m, 0, "iid", "exponential")(X[:20])
    off = np.abs(np.real(phi @ phi.conj().T) - KERNEL(X[:20])).max()
    table.row(
        "Random Fourier features", "phi(x) = (e^{-2 pi i w_1 x}, ...)", f"off by {off:.3f} with {m:,}", off < 0.05
    )


def squared_norm(coefficients: np.ndarray, eigenvalues: np.ndarray) -> float:
    """Sum of a_i^2 / lambda_i over the eigenvalues that are more than rounding."""
    kept = eigenvalues > 1e-10 * eigenvalues[0]
    return float((coefficients[kept] ** 2 / eigenvalues[kept]).sum())


def eigenfunctions(table: Table) -> None:
    n, k = (300, 150) if table.small else (1000, 400)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 2))
    phi = NystromMap(KERNEL, X[:k], rank=20)
    E, lam = phi.eigenfunctions(X[:k]), phi.eigenvalues(1)
    off = np.abs(E.T @ E / k - np.eye(E.shape[1])).max()
    table.row(
        "Another view", "L_K e_i = lambda_i e_i, the e_i orthonormal", f"off by {off:.0e} on the sample", off < 1e-6
    )
    full = NystromMap(KERNEL, X[:k])
    E, lam = full.eigenfunctions(X[:k]), full.eigenvalues(1)
    mercer = np.abs((E * lam) @ E.T - KERNEL(X[:k])).max()
    table.row(
        "Feature map, another view", "K(x, y) = sum of lambda_i e_i(x) e_i(y)", f"off by {mercer:.0e}", mercer < 1e-6
    )
    a = rng.standard_normal(k)
    f = KERNEL(X[:k]) @ a
    coefficients = E.T @ f / k
    ratio = squared_norm(coefficients, lam) / float(a @ f)
    table.row("RKHS, another view", "|f|_H^2 = sum of a_i^2 / lambda_i", f"{ratio:.6f} of a K a", abs(ratio - 1) < 1e-2)
    squares = []
    for points in (X[:k], np.concatenate([X[:1], 0.5 * X[1:k] + 0.5])):
        own = NystromMap(KERNEL, points)
        E, lam = own.eigenfunctions(points), own.eigenvalues(1)
        of_f = E.T @ KERNEL(points, X[:1])[:, 0] / len(points)
        squares.append(squared_norm(of_f, lam))
    table.row(
        "RKHS, another view",
        "(e_i, lambda_i) depend on mu, the space does not",
        f"|K(x, .)|^2 under two measures {listed(squares, 5)}; K(x, x) is 1",
        max(abs(v - 1) for v in squares) < 1e-2,
    )
    X, y = waves(1500 if table.small else 4000)
    new, truth = waves(1000, 99, 0.0)
    ranks = [5, 10, 20, 40]
    errors = []
    for d in ranks:
        phi = NystromMap(Gaussian(gamma=2.0), X[:100], rank=d)
        w = np.linalg.lstsq(phi(X), y)[0]
        errors.append(float(np.sqrt(np.mean((phi(new) @ w - truth) ** 2))))
    table.row(
        "Nystrom approximation algorithm",
        "k points, d eigenvectors, least squares",
        f"rmse {listed(errors, 2)} at d of {listed(ranks)}, k = 100",
        errors[-1] < 0.2 * errors[0],
    )


def sizes(table: Table) -> None:
    rng = np.random.default_rng(0)
    counts = [2000, 10_000] if table.small else [10_000, 100_000]
    X = rng.standard_normal((counts[-1], 10)).astype(np.float32)
    y = np.sin(X[:, 0] * X[:, 1]) > 0
    settings = {"n_components": 1000, "alpha": 1e-5, "passes": 1, "solver": "psgd", "local": "none", "scale": "none"}
    cost = [seconds(lambda n=n: KernelClassifier(Gaussian(gamma=0.1), **settings).fit(X[:n], y[:n]), 1) for n in counts]
    linear = seconds(lambda: KernelClassifier("linear", **settings).fit(X, y), 1)
    table.row(
        "Big(ger) data",
        "10^4 rows easy, 10^5 doable; linear methods 10^7 doable",
        f"1,000 landmarks: {listed(cost, 3)} CPU s for {listed(counts)} rows; linear {linear:.2f} s for {counts[-1]:,} "
        f"({linear * 1e7 / counts[-1]:.0f} s for 10^7 at that rate)",
        True,
    )
    digits, label = load_digits(return_X_y=True)
    few = np.random.default_rng(0).permutation(len(digits))[: 400 if table.small else 1797]
    learn, judge = few[: len(few) * 3 // 4], few[len(few) * 3 // 4 :]
    D = 50_000 if table.small else 1_000_000
    wide = KernelClassifier(
        Gaussian(gamma=1e-3),
        features="fourier",
        n_components=D,
        alpha=1e-6,
        passes=1,
        solver="psgd",
        scale="none",
        loss="squared",
        local="none",
    )
    cost = [seconds(lambda: wide.fit(digits[learn], label[learn] % 2), 1)]
    right = float((wide.predict(digits[judge]) == label[judge] % 2).mean())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    table.row(
        "Big(ger) data",
        "The dimension must often be 100,000 to 1,000,000; it can be done",
        f"{D:,} random features of the digits, one pass: accuracy {right:.3f}, {cost[0]:.1f} CPU s, at most "
        f"{peak:,.0f} MiB in the process",
        right > 0.9,
    )
