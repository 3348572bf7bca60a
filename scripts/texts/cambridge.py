"""004, "Modern Statistical Methods", 2.6 Large-scale kernel machines: lecture notes."""

import numpy as np
from texts.rows import Picture, Table, exponent, listed, seconds

from dkernel import Gaussian, KernelRegressor
from dkernel.features import FourierMap, StackedMap

SIGMA = 1.5
KERNEL = Gaussian(sigma=SIGMA)


def run(small: bool) -> Table:
    """All rows of the section, in their order."""
    table = Table("004", "Modern Statistical Methods, 2.6 Large-scale kernel machines (notes)", small)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((12, 3))
    draws = 150 if small else 600
    b = 8

    def one(seed: int) -> FourierMap:
        return FourierMap.draw(KERNEL, 3, b, seed, "iid", "offset")

    grams = np.stack([(F := one(seed)(X)) @ F.T for seed in range(draws)])
    off = np.abs(grams.mean(axis=0) - KERNEL(X)) / (grams.std(axis=0) / draws**0.5)
    table.row(
        "Randomized feature map",
        "E phi(x)^T phi(x') = k(x, x')",
        f"mean of {draws} maps within {off.max():.1f} standard errors",
        off.max() < 5,
    )
    counts = [1, 4, 16]
    variance = []
    for L in counts:
        maps = (StackedMap.average([one(L * seed + i) for i in range(L)]) for seed in range(draws // 3))
        variance.append(float(np.stack([(F := phi(X)) @ F.T for phi in maps]).var(axis=0).mean()))
    power = exponent(counts, variance)
    table.row(
        "Average of L maps",
        "The approximation improves with L",
        f"variance L^{power:.2f} for L of {listed(counts)}",
        -1.25 < power < -0.75,
    )
    table.pictures.append(
        Picture("average", "004: variance of the average of L maps", "L", "variance", {"measured": (counts, variance)})
    )
    rows = rng.standard_normal((400, 3))
    y = np.sin(rows[:, 0])
    y -= y.mean()
    settings = {"features": "fourier", "solver": "normal", "scale": "none", "dtype": "float64", "holdout": 0}
    fit = KernelRegressor(KERNEL, n_components=64, alpha=1e-3, **settings).fit(rows, y)
    Phi = fit.model_.map(rows)
    Phi = Phi - Phi.mean(axis=0)  # the intercept, which is not regularized, takes the means
    theta = np.linalg.solve(Phi.T @ Phi + 1e-3 * 400 * np.eye(64), Phi.T @ y)
    off = np.abs(Phi @ theta - (fit.predict(rows) - fit.predict(rows).mean())).max()
    table.row(
        "Kernel ridge regression",
        "theta = (Phi^T Phi + lambda I)^{-1} Phi^T Y",
        f"predictions off by {off:.0e}",
        off < 5e-3,
    )
    widths = [128, 256, 512] if small else [256, 512, 1024]
    sizes = [10_000, 20_000, 40_000] if small else [20_000, 40_000, 80_000]
    data = rng.standard_normal((sizes[-1], 5)).astype(np.float32)
    target = np.sin(data[:, 0])

    def cost(n: int, D: int) -> float:
        machine = KernelRegressor(KERNEL, n_components=D, alpha=1e-3, **{**settings, "dtype": "float32"})
        return seconds(lambda: machine.fit(data[:n], target[:n]), 1)

    of_width, of_rows = [cost(sizes[0], D) for D in widths], [cost(n, widths[0]) for n in sizes]
    in_width, in_rows = exponent(widths, of_width), exponent(sizes, of_rows)
    table.row(
        "Cost",
        "O((L b)^3 + n (L b)^2), linear in n",
        f"(L b)^{in_width:.2f} for {listed(widths)} of n = {sizes[0]:,}; n^{in_rows:.2f} for {listed(sizes)} of "
        f"L b = {widths[0]}",
        0.4 < in_width < 3 and in_rows < 1.2,
    )
    maps = [FourierMap.draw(KERNEL, 5, D, 0, "iid") for D in widths]
    power = exponent(widths, [seconds(lambda phi=phi: phi.components(data[:4000], "float32").sum()) for phi in maps])
    table.row("Prediction", "O(L b)", f"(L b)^{power:.2f}", 0.5 < power < 1.3)
    m = 100_000 if small else 400_000
    x, z = X[0], X[1]
    w, u = KERNEL.frequencies(3, m, rng), rng.uniform(-np.pi, np.pi, m)
    bound = 5 / m**0.5
    first = abs(np.cos(w @ (x - z)).mean() - KERNEL(x, z))
    table.row(
        "Bochner's theorem", "k(x, x') = c E cos((x - x')^T W)", f"off by {first:.4f}, {m:,} draws", first < bound
    )
    second = abs((2 * np.cos(1.2 + u) * np.cos(0.5 + u)).mean() - np.cos(0.7))
    table.row("The cosine map", "2 E cos(x + u) cos(y + u) = cos(x - y)", f"off by {second:.4f}", second < bound)
    third = abs((2 * np.cos(w @ x + u) * np.cos(w @ z + u)).mean() - KERNEL(x, z))
    table.row("The cosine map", "phi(x) = sqrt(2 c) cos(W^T x + u)", f"off by {third:.4f}", third < 1.5 * bound)
    ratio = float(w.var() * SIGMA**2)
    table.row(
        "Example: Gaussian", "W ~ N(0, sigma^{-2} I)", f"variance {ratio:.3f} of sigma^{{-2}}", abs(ratio - 1) < 0.02
    )
    return table
