"""003, C. Zhang, CSC 580, "08 Kernel methods": slides."""

import math

import numpy as np
from sklearn.datasets import make_moons
from sklearn.neighbors import KNeighborsClassifier
from texts.rows import Picture, Table, exponent, listed, seconds, smallest_eigenvalue

import dkernel
from dkernel import Gaussian, Geometric, KernelClassifier, KernelPerceptron, KernelRegressor, Laplacian, Linear
from dkernel.errors import DataError
from dkernel.features import choose_map
from dkernel.kernels import Normalized, Polynomial, PowerSeries


def run(small: bool) -> Table:
    """All rows of the slides, in their order."""
    table = Table("003", "Zhang, CSC 580, 08 Kernel methods (slides)", small)
    fits(table)
    examples(table)
    votes(table)
    closure(table)
    perceptrons(table)
    ridge(table)
    return table


def fits(table: Table) -> None:
    """The two pictures of over- and underfitting: degrees of a polynomial, and gamma."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (40, 1))
    y = np.sin(4 * X[:, 0]) + 0.2 * rng.standard_normal(40)
    new = np.linspace(-1, 1, 400)[:, None]
    truth = np.sin(4 * new[:, 0])

    def errors(kernel: dkernel.kernels.Kernel, alpha: float) -> tuple[float, float]:
        fit = KernelRegressor(kernel, alpha=alpha, solver="exact", scale="none", dtype="float64").fit(X, y)
        return tuple(float(np.mean((fit.predict(rows) - t) ** 2)) for rows, t in ((X, y), (new, truth)))  # type: ignore

    degrees = [1, 2, 3, 5, 8, 12] if table.small else [1, 2, 3, 4, 5, 6, 8, 10, 12, 15]
    gammas = [1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3]
    of_degree = np.array([errors(Polynomial(degree=d, c=1.0), 1e-9) for d in degrees])
    of_gamma = np.array([errors(Gaussian(gamma=g), 1e-6) for g in gammas])
    for name, values, found, place, says in (
        (
            "degrees",
            degrees,
            of_degree,
            "Feature embedding trick; polynomial kernels",
            "Higher degree: richer class, overfits",
        ),
        ("gammas", gammas, of_gamma, "Gaussian kernel", "Larger gamma is more likely to overfit"),
    ):
        best = int(found[:, 1].argmin())
        table.row(
            place,
            says,
            f"training error {listed(found[:, 0].tolist(), 2)}; test {listed(found[:, 1].tolist(), 2)}; best at "
            f"{values[best]:g}",
            found[-1, 0] < found[0, 0] and found[-1, 1] > found[best, 1] and found[0, 1] > found[best, 1],
        )
        table.pictures.append(
            Picture(
                name,
                f"003: {says}",
                name.removesuffix("s"),
                "squared error",
                {"training": (values, found[:, 0].tolist()), "test": (values, found[:, 1].tolist())},
            )
        )


def examples(table: Table) -> None:
    x = np.linspace(-0.9, 0.9, 13)[:, None]
    series = [float(np.abs(PowerSeries(Linear(), [1.0] * D)(x) - Geometric(Linear())(x)).max()) for D in (10, 100, 300)]
    try:
        Geometric(Linear())(np.array([[1.5]]))
        refused = False
    except DataError:
        refused = True
    least = smallest_eigenvalue(Geometric(Linear())(x))
    table.row(
        "Kernel function: an example",
        "K(x, y) = 1 / (1 - xy) for |x| < 1, of the features x^n",
        f"Geometric(Linear()); 10, 100, 300 powers off by {listed(series, 1)}; |x| = 1.5 is "
        f"{'refused' if refused else 'taken'} (the slide's sum from n = 1 lacks the 1)",
        series[-1] < 1e-10 and refused and least > -1e-12,
    )
    x, z = np.array([[2.0, 3.0]]), np.array([[-1.0, 0.5]])
    six = choose_map(Polynomial(degree=2, c=1.0), 2, 6, "exact")
    wanted = [1.0, 2**0.5 * 2, 2**0.5 * 3, 4.0, 2**0.5 * 6, 9.0]
    off = np.abs(six(x)[0] - wanted).max() + abs(float(six(x)[0] @ six(z)[0]) - (1 + 2 * -1 + 3 * 0.5) ** 2)
    table.row(
        "Polynomial kernels", "(1 + xz)^2 has six features", f"the six of the slide, off by {off:.0e}", off < 1e-5
    )
    gamma, x = 0.7, np.array([[0.8]])
    taylor = choose_map(Gaussian(gamma=gamma), 1, 8, "exact")(x)[0]
    own = [math.exp(-gamma * 0.64) * math.sqrt((2 * gamma) ** N / math.factorial(N)) * 0.8**N for N in range(8)]
    off = np.abs(taylor - own).max()
    table.row("Gaussian kernels", "Features e^{-gamma x^2} sqrt((2 gamma)^N / N!) x^N", f"off by {off:.0e}", off < 1e-6)
    rows = np.random.default_rng(0).standard_normal((500, 3))
    apart = np.linalg.norm(rows[:, None] - rows[None], axis=2)[np.triu_indices(500, 1)]
    fit = KernelClassifier("gaussian", gamma="median", n_components=50, scale="none", alpha=1e-3).fit(
        rows, rows[:, 0] > 0
    )
    sigma = (1 / (2 * fit.kernel_.gamma)) ** 0.5
    table.row(
        "Gaussian kernel",
        "Choose sigma = median |x_i - x_j|",
        f'gamma="median" has sigma {sigma:.3f}, the median is {np.median(apart):.3f}',
        abs(sigma / np.median(apart) - 1) < 0.1,
    )

    def largest(X: np.ndarray, Z: np.ndarray) -> np.ndarray:
        return np.maximum(X, Z.T)

    found = [dkernel.is_psd(largest, S) for S in ([-1.0], [0.0, 2.0])]
    least = float(np.linalg.eigvalsh([[0, 2], [2, 2]])[0])
    table.row(
        "Example: max(x, y)",
        "No kernel: S = {-1}, and S = {0, 2}",
        f"is_psd finds a vector for both; eigenvalue {least:.3f}",
        not any(found),
    )


def votes(table: Table) -> None:
    X, y = make_moons(400, noise=0.25, random_state=0)
    new, truth = make_moons(2000, noise=0.25, random_state=1)
    svm = KernelClassifier(Gaussian(gamma=2.0), loss="hinge", alpha="C=1", solver="exact", scale="none").fit(X, y)
    scores = svm.kernel_(new, svm.support_vectors_) @ svm.dual_coef_[0] + svm.intercept_[0]
    off = np.abs(scores - svm.decision_function(new)).max()
    nearest = KNeighborsClassifier(15, weights=lambda d: np.exp(-2.0 * d**2)).fit(X, y)
    right, beside = (float((m.predict(new) == truth).mean()) for m in (svm, nearest))
    table.row(
        "How to use kernels with SVM",
        "sign(sum of alpha_i y_i K(x_i, x) + b)",
        f"dual_coef_, support_vectors_: off by {off:.0e}",
        off < 1e-3,
    )
    table.row(
        "Cf. weighted k-NN",
        "sign(sum of w_i y_i), w_i = exp(-beta d^2)",
        f"two moons: {right:.3f} by {len(svm.support_)} support vectors, {beside:.3f} by 15 neighbours",
        abs(right - beside) < 0.05,
    )


def closure(table: Table) -> None:
    rng = np.random.default_rng(0)
    X, A = rng.standard_normal((30, 3)), np.array([[2.0, 1.0, 0.0], [1.0, 2.0, 0.0], [0.0, 0.0, 1.0]])
    cubic, gaussian = Polynomial(degree=3, c=1.0), Gaussian(gamma=0.1).on([0])
    pairs = {
        "k_a + k_b: (phi_a, phi_b)": Linear(A=A) + cubic,
        "gamma k_a: sqrt(gamma) phi_a": 3 * cubic,
        "k_a k_b: phi_ai phi_bj": Linear(A=A) * gaussian,
        "x^T A v: L^T x": Linear(A=A),
        "f(x) f(v) k_a: f(x) phi_a(x)": Normalized(cubic),
    }
    for says, kernel in pairs.items():
        phi = choose_map(kernel, 3, 120, "exact")
        F = phi(X)
        off = np.abs(F @ F.T - kernel(X)).max() / np.abs(kernel(X)).max()
        table.row(
            "Building kernels from simpler ones",
            says,
            f"{phi.text}, {phi.n_components} features, off by {off:.0e}",
            off < 1e-5,
        )
    kernel = PowerSeries(Laplacian(gamma=0.1), [0.5, 1.0, 0.0, 2.0])
    least = smallest_eigenvalue(kernel(X))
    table.row(
        "Building kernels from simpler ones",
        "Positive power series of a kernel",
        f"smallest eigenvalue {least:.0e}",
        least > -1e-12,
    )


def perceptrons(table: Table) -> None:
    X, y = make_moons(60, noise=0.3, random_state=0)
    signs, K = 2 * y - 1, Gaussian(gamma=0.3)(X)
    own = KernelPerceptron(Gaussian(gamma=0.3), max_iter=3).fit(X, y)
    a, b = np.zeros(60), 0.0
    for _ in range(3):
        for i in range(60):
            if signs[i] * (a @ K[:, i] + b) <= 0:
                a[i] += signs[i]
                b += signs[i]
    found = np.zeros(60)
    found[own.support_] = own.dual_coef_[0]
    without = KernelPerceptron(Gaussian(gamma=0.3), max_iter=3, fit_intercept=False).fit(X, y)
    others = np.zeros(60)
    others[without.support_] = without.dual_coef_[0]
    table.row(
        "Kernelized perceptron (Algorithm 30)",
        "alpha_n <- alpha_n + y_n, b <- b + y_n on a mistake",
        f"{int((found != a).sum())} of 60 coefficients differ from the loop, b is {own.intercept_[0]:g} and {b:g}; "
        f"without b {int((others != a).sum())} differ",
        (found == a).all() and own.intercept_[0] == b,
    )
    X, y = make_moons(1000, noise=0.2, random_state=0)
    machine = KernelClassifier(Gaussian(gamma=1.0), loss="perceptron", n_components=200, alpha=1e-6, passes=3).fit(X, y)
    table.row(
        "Perceptron (Algorithm 29)",
        "The perceptron on phi(x)",
        f'loss="perceptron" on 200 components: {machine.score(X, y):.3f} on two moons',
        machine.score(X, y) > 0.9,
    )


def ridge(table: Table) -> None:
    rng = np.random.default_rng(0)
    F, y = rng.standard_normal((60, 20)), rng.standard_normal(60)
    primal = np.linalg.solve(F.T @ F + 0.5 * np.eye(20), F.T @ y)
    dual = F.T @ np.linalg.solve(F @ F.T + 0.5 * np.eye(60), y)
    X = rng.standard_normal((300, 3))
    target = np.sin(X[:, 0])
    cubic = Polynomial(degree=3, c=1.0)
    settings = {"alpha": 1e-3, "scale": "none", "dtype": "float64"}
    one = KernelRegressor(cubic, features="exact", n_components=20, solver="normal", holdout=0, **settings).fit(
        X, target
    )
    two = KernelRegressor(cubic, features="nystrom", solver="exact", **settings).fit(X, target)
    off = np.abs(one.predict(X) - two.predict(X)).max()
    table.row(
        "Kernelized ridge regression",
        "(lambda I + X^T X)^{-1} X^T y = X^T (lambda I + X X^T)^{-1} y",
        f"off by {np.abs(primal - dual).max():.0e}; dkernel's primal (20 monomials) and dual (300 rows) by {off:.0e}",
        off < 1e-3,
    )
    votes = two.kernel_(X, two.support_vectors_) @ two.dual_coef_[0] + two.model_.intercept[0]
    off = np.abs(votes - two.predict(X)).max()
    table.row("Kernelized ridge regression", "(K(x, x_1), ..., K(x, x_n)) alpha", f"off by {off:.0e}", off < 1e-3)

    n = 4000 if table.small else 20_000
    widths = [100, 200, 400] if table.small else [200, 400, 800]
    columns = [rng.standard_normal((n, p)) for p in widths]
    primal_cost = exponent(
        widths, [seconds(lambda M=M: np.linalg.solve(M.T @ M + np.eye(M.shape[1]), M[:1].T), 2) for M in columns]
    )
    counts = [400, 800, 1600] if table.small else [500, 1000, 2000]
    rows = [rng.standard_normal((m, 10)) for m in counts]
    kernel = Gaussian(gamma=0.1)
    dual_cost = exponent(
        counts, [seconds(lambda R=R: np.linalg.solve(kernel(R) + np.eye(len(R)), R[:, :1]), 2) for R in rows]
    )
    test_dual = exponent(counts, [seconds(lambda R=R: kernel(rows[0], R) @ R[:, 0]) for R in rows])
    test_primal = exponent(widths, [seconds(lambda M=M: M @ M[0]) for M in columns])
    table.row(
        "Time complexity, training",
        "n p^2 + p^3, and n^2 k + n^3",
        f"p^{primal_cost:.2f} for p of {listed(widths)}; n^{dual_cost:.2f} for n of {listed(counts)}",
        1.2 < primal_cost < 3.2 and 1.8 < dual_cost < 3.3,
    )
    table.row(
        "Time complexity, test",
        "O(p), and O(n k)",
        f"p^{test_primal:.2f} and n^{test_dual:.2f}, same sizes",
        0.5 < test_primal < 1.5 and 0.5 < test_dual < 1.5,
    )
