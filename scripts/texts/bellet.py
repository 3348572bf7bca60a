"""000, A. Bellet, "Large-scale kernel methods": slides of 2017."""

import contextlib
import io
import re
from pathlib import Path

import numpy as np
import scipy.stats
from sklearn.datasets import make_circles, make_classification
from sklearn.decomposition import KernelPCA as ExactPCA
from sklearn.kernel_ridge import KernelRidge
from sklearn.svm import SVC
from texts.rows import Picture, Table, exponent, listed, seconds, smallest_eigenvalue

import dkernel
from dkernel import FourierFeatures, FunctionKernel, Gaussian, KernelClassifier, KernelRegressor, Laplacian, Linear
from dkernel.features import FourierMap, NystromMap, StackedMap
from dkernel.features.landmarks import RULES, select_landmarks
from dkernel.kernels import Polynomial
from dkernel.leaves.maps.maclaurin import MaclaurinMap

ROOT = Path(__file__).resolve().parents[2]
GAUSSIAN, LAPLACIAN = Gaussian(gamma=0.1), Laplacian(gamma=0.1)


def run(small: bool) -> Table:
    """All rows of the slides, in their order."""
    table = Table("000", "Bellet, Large-scale kernel methods (slides, 2017)", small)
    machines(table)
    kernels(table)
    structured(table)
    costs(table)
    bochner(table)
    random_features(table)
    nystrom(table)
    rates(table)
    return table


def noisy(n: int, p: int = 20, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows of unit variance, and labels of which a tenth is drawn."""
    X, y = make_classification(n, p, flip_y=0.1, random_state=seed)
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def machines(table: Table) -> None:
    X, y = noisy(300 if table.small else 800)
    C, gamma = 1.0, 0.05
    svm = KernelClassifier(Gaussian(gamma=gamma), loss="hinge", alpha=f"C={C}", solver="exact", scale="none").fit(X, y)
    signs = 2.0 * y - 1
    K = Gaussian(gamma=gamma)(X)
    a = np.zeros(len(X))
    a[svm.support_] = svm.dual_coef_[0]
    norm, s = a @ K @ a, K @ a + svm.intercept_[0]
    primal = norm / 2 + C * np.maximum(0, 1 - signs * s).sum()
    dual = signs @ a - norm / 2
    table.row(
        "SVM: primal and dual",
        "One optimum; 0 <= alpha <= C, sum of alpha y = 0",
        f"gap {abs(primal - dual) / primal:.1e} of the primal, alpha in [{(signs * a).min():.0e}, "
        f"{(signs * a).max() / C:.6f} C], sum {abs(a.sum()):.0e}",
        abs(primal - dual) < 1e-4 * primal and (signs * a).max() <= C * 1.00001 and abs(a.sum()) < 1e-4,
    )
    twin = SVC(C=C, gamma=gamma, tol=1e-6).fit(X, y)
    others = len(set(twin.support_) ^ set(svm.support_))
    off = np.abs(twin.decision_function(X) - svm.decision_function(X)).max()
    table.row(
        "Kernel SVM",
        "f(x) = sign(sum of alpha_i y_i K(x, x_i))",
        f"{len(svm.support_)} support vectors, {others} not those of libsvm; scores off by {off:.0e}",
        others <= 2 and off < 1e-3,
    )


def kernels(table: Table) -> None:
    X = np.random.default_rng(0).standard_normal((60, 4))
    cubic = Polynomial(degree=3, c=1.0)
    plain = {
        "linear": (Linear(), lambda x, z: x @ z),
        "polynomial": (cubic, lambda x, z: (x @ z + 1) ** 3),
        "Gaussian": (GAUSSIAN, lambda x, z: np.exp(-0.1 * ((x - z) ** 2).sum())),
        "Laplace": (LAPLACIAN, lambda x, z: np.exp(-0.1 * np.abs(x - z).sum())),
    }
    off = max(np.abs(k(X) - [[f(x, z) for z in X] for x in X]).max() for k, f in plain.values())
    table.row("Kernels between vectors", "Four formulas", f"off by {off:.0e} at most", off < 1e-9)
    made = [*(k for k, _ in plain.values()), GAUSSIAN + 2 * cubic, GAUSSIAN * LAPLACIAN, dkernel.Exp(0.1 * Linear())]
    least = min(smallest_eigenvalue(k(X)) for k in made)
    table.row(
        "Kernel function; closure",
        "PSD; sums and positive combinations are kernels",
        f"smallest eigenvalue {least:.0e} of the largest, of {len(made)} kernels; a negative weight is refused",
        least > -1e-12,
    )
    y = np.sin(X[:, 0])
    ridge = KernelRegressor(GAUSSIAN, alpha=1e-2 / len(X), solver="exact", scale="none").fit(X, y - y.mean())
    twin = KernelRidge(alpha=1e-2, kernel=lambda x, z: GAUSSIAN(x[None], z[None])[0, 0]).fit(X, y - y.mean())
    off_ridge = np.abs(ridge.predict(X) - twin.predict(X)).max()
    own = dkernel.KernelPCA(3, kernel=GAUSSIAN, n_map_components=len(X)).fit_transform(X)
    exact = ExactPCA(3, kernel="rbf", gamma=0.1).fit_transform(X)
    off_pca = np.abs(np.abs(own) - np.abs(exact)).max()
    rings, ring = make_circles(400, factor=0.3, noise=0.05, random_state=0)
    far = dkernel.SpectralClustering(2, gamma=20.0, random_state=0).fit_predict(rings)
    found = max((far == ring).mean(), (far != ring).mean())
    views = dkernel.KernelCCA(1, kernel=GAUSSIAN, n_map_components=40).fit(X, np.column_stack([y, y**2]))
    heights = [np.ravel(view)[: len(X)] for view in views.transform(X, np.column_stack([y, y**2]))]
    together = abs(np.corrcoef(*heights)[0, 1])
    table.row(
        "Nonlinear variants",
        "SVM, ridge, PCA, CCA, K-means",
        f"ridge off by {off_ridge:.0e} of scikit-learn's, PCA by {off_pca:.0e}; CCA correlates {together:.2f}; two "
        f"rings are told apart in {found:.0%}",
        off_ridge < 0.05 and off_pca < 1e-3 and together > 0.9 and found > 0.95,
    )


def structured(table: Table) -> None:
    """The functions of the page of structured kernels, and their Gram matrices."""
    rows = {
        "mismatch": ["ACGT", "ACG", "TTTTT", "GACGTA"],
        "subsequence": ["cat", "car", "dog", "cart"],
        "tree": ["(S (NP I) (VP run))", "(S (NP I) (VP sit))", "(NP I)"],
        "graph": ["C C O; 0-1 1-2", "C O C; 0-1 1-2"],
        "all pairs": ["1 2 3", "3 2 1", "7"],
        "equal positions": ["1 2 3", "3 2 1", "7"],
    }
    page = (ROOT / "dkernel" / "kernels" / "STRUCTURED.md").read_text()
    with contextlib.redirect_stdout(io.StringIO()):
        for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
            exec("\n".join(line for line in block.splitlines() if not line.startswith(("print(", "machine ="))), {})
    least = min(smallest_eigenvalue(FunctionKernel(name)(each)) for name, each in rows.items())
    table.row(
        "Kernels on structured data",
        "String, tree, graph, convolution and mapping kernels",
        f"{', '.join(rows)}: functions of dkernel/kernels/STRUCTURED.md, smallest eigenvalue {least:.0e}",
        least > -1e-9,
    )


def costs(table: Table) -> None:
    sizes = [500, 1000, 2000] if table.small else [500, 1000, 2000, 4000]
    rng = np.random.default_rng(0)
    of_gram = [seconds(lambda n=n: dkernel.gram(GAUSSIAN, rng.standard_normal((n, 20)))) for n in sizes]
    power = exponent(sizes, of_gram)
    table.row("Gram matrix", "O(n^2) to construct", f"n^{power:.2f} for n of {listed(sizes)}", 1.5 < power < 2.5)
    sizes = [300, 600, 1200] if table.small else [500, 1000, 2000]
    Gs = [np.eye(n) + GAUSSIAN(rng.standard_normal((n, 20))) for n in sizes]
    power = exponent(sizes, [seconds(lambda G=G: np.linalg.inv(G)) for G in Gs])
    table.row("Gram matrix", "O(n^3) to invert", f"n^{power:.2f} for n of {listed(sizes)}", 2.2 < power < 3.5)

    sizes = [200, 400, 800] if table.small else [250, 500, 1000]
    X, y = noisy(4 * sizes[-1])
    new = np.tile(X, (max(1, 4000 // len(X)), 1))[:4000]
    counts, exact, constant = [], [], []
    for n in sizes:
        svm = KernelClassifier(Gaussian(gamma=0.05), loss="hinge", alpha="C=1", solver="exact", scale="none")
        svm.fit(X[:n], y[:n])
        counts.append(len(svm.support_))
        exact.append(seconds(lambda m=svm: m.kernel_(new, m.support_vectors_) @ m.dual_coef_.T))
        few = KernelClassifier(Gaussian(gamma=0.05), n_components=100, alpha=1e-3, scale="none").fit(X[:n], y[:n])
        constant.append(
            seconds(lambda m=few: m.kernel_(new, m.model_.map.landmarks.astype(float)) @ m.component_coef_.T)
        )
    power = exponent(sizes, counts)
    table.row(
        "Prediction time",
        "The number of support vectors grows linearly with n (Steinwart)",
        f"{listed(counts)} of {listed(sizes)} rows, n^{power:.2f}",
        0.75 < power < 1.15,
    )
    growth, flat = exponent(sizes, exact), exponent(sizes, constant)
    table.row(
        "Prediction time",
        "O(n) of a kernel method; independent of n of a map",
        f"n^{growth:.2f} by support vectors, n^{flat:.2f} by 100 components",
        growth > 0.5 and flat < 0.4,
    )
    table.pictures.append(
        Picture(
            "sources-000-support-vectors",
            "000: cost of a prediction",
            "rows of the training",
            "CPU seconds, 4,000 rows",
            {"support vectors": (sizes, exact), "100 components": (sizes, constant)},
        )
    )
    sizes = [10_000, 20_000, 40_000] if table.small else [40_000, 80_000, 160_000]
    X, y = noisy(sizes[-1])
    machine = KernelClassifier(
        Gaussian(gamma=0.05),
        features="fourier",
        n_components=256,
        alpha=1e-4,
        solver="psgd",
        scale="none",
        local="none",
    )
    machine.fit(X[: sizes[0]], y[: sizes[0]])  # whose loops are loaded by the first fit
    power = exponent(sizes, [seconds(lambda n=n: machine.fit(X[:n], y[:n]), 1) for n in sizes])
    table.row(
        "Primal formulation",
        "With a finite map training is linear in n",
        f"n^{power:.2f} for n of {listed(sizes)}, 256 components",
        power < 1.2,
    )


def bochner(table: Table) -> None:
    rng = np.random.default_rng(1)
    m = 100_000 if table.small else 400_000
    x, z, shift = rng.standard_normal((3, 3))
    worst, error = 0.0, 4 / m**0.5
    for kernel in (GAUSSIAN, LAPLACIAN):
        w, b = kernel.frequencies(3, m, rng), rng.uniform(0, 2 * np.pi, m)
        u, v = w @ x, w @ z
        lines = [
            np.exp(1j * (u - v)).mean(),
            np.cos(u - v).mean(),
            (np.cos(u) * np.cos(v) + np.sin(u) * np.sin(v)).mean(),
            (2 * np.cos(u + b) * np.cos(v + b)).mean(),
        ]
        worst = max(worst, *(abs(line - kernel(x, z)) for line in lines))
    off = max(abs(k(x - shift, z - shift) - k(x, z)) for k in (GAUSSIAN, LAPLACIAN))
    table.row("Shift-invariant kernel", "K(x - a, x' - a) = K(x, x')", f"off by {off:.0e}", off < 1e-12)
    table.row(
        "Bochner's theorem, (1) to (4)",
        "e^{iw(x - x')}, cos, cos cos + sin sin, 2 cos cos with b: one mean",
        f"off by {worst:.4f} at most with {m:,} draws (four standard errors are {error * 1.3:.4f})",
        worst < error * 1.3,
    )
    w = GAUSSIAN.frequencies(3, m, rng)
    ratio = w.var() / (2 * 0.1)
    table.row(
        "Random kernel features",
        "P of the Gaussian kernel is N(0, 2 gamma I)",
        f"variance {ratio:.3f} of 2 gamma",
        abs(ratio - 1) < 0.02,
    )
    w = LAPLACIAN.frequencies(1, m, rng)[:, 0]
    own = scipy.stats.kstest(w[:20_000], scipy.stats.cauchy(scale=0.1).cdf).pvalue
    slide = scipy.stats.kstest(w[:20_000], scipy.stats.cauchy(scale=0.2**0.5).cdf).pvalue
    table.row(
        "Random kernel features",
        "P of the Laplace kernel is the product of 1 / (pi (1 + w^2 / 2 gamma))",
        f"The slide's density has the integral (2 gamma)^(1/2) and another width: Kolmogorov's p is {slide:.0e} for "
        f"it, {own:.2f} for Cauchy of scale gamma, which dkernel draws",
        False,
    )


def largest_error(kernel: Gaussian, p: int, c: int, seed: int, radius: float = 6.0) -> float:
    """sup over |d| <= radius of |mean cos(w d) - k(d)|, by ascent from 64 starts."""
    rng = np.random.default_rng(seed)
    w = kernel.frequencies(p, c // 2, rng)
    d = rng.standard_normal((64, p))
    d *= radius * rng.uniform(0, 1, (64, 1)) / np.linalg.norm(d, axis=1, keepdims=True)
    gamma, best, step = float(kernel.gamma), 0.0, 0.5
    for turn in range(40):
        waves = d @ w.T
        k = np.exp(-gamma * (d * d).sum(axis=1))
        error = np.cos(waves).mean(axis=1) - k
        best = max(best, float(np.abs(error).max()))
        slope = -np.sin(waves) @ w / len(w) + 2 * gamma * d * k[:, None]
        slope *= np.sign(error)[:, None]
        d = d + step * 0.95**turn * slope / np.maximum(np.linalg.norm(slope, axis=1, keepdims=True), 1e-12)
        d *= np.minimum(1.0, radius / np.maximum(np.linalg.norm(d, axis=1, keepdims=True), 1e-12))
    return best


def random_features(table: Table) -> None:
    kernel = Gaussian(gamma=0.5)
    seeds = range(2 if table.small else 4)
    counts, widths = [128, 512, 2048], [2, 4, 8, 16]
    of_c = [float(np.mean([largest_error(kernel, 4, c, s) for s in seeds])) for c in counts]
    of_p = [float(np.mean([largest_error(kernel, p, 512, s) for s in seeds])) for p in widths]
    in_c, in_p = exponent(counts, of_c), exponent(widths, of_p)
    table.row(
        "Theorem (Rahimi and Recht 2007)",
        "The largest error over a ball is at most O(sqrt(p / c))",
        f"c^{in_c:.2f} for c of {listed(counts)}; p^{in_p:.2f} for p of {listed(widths)}",
        -0.65 < in_c < -0.35 and 0 < in_p < 0.6,
    )
    table.pictures.append(
        Picture(
            "sources-000-sup-error",
            "000: largest error of random features",
            "c (p = 4), or p (c = 512)",
            "largest error",
            {"over c": (counts, of_c), "over p": (widths, of_p)},
        )
    )
    table.row(
        "Generalization (Rahimi and Recht 2008)",
        "The generalization error is bounded too",
        "accuracy over c in the table of 001",
        True,
    )
    table.row(
        "Speech, 50 hours, c = 500K",
        "As good as deep networks",
        "no acoustic data here; 1,000,000 features are fitted in 002",
        None,
    )
    rng = np.random.default_rng(0)
    X = rng.standard_normal((8, 5)) / 5**0.5
    cubic = Polynomial(degree=3, c=1.0)
    draws = 100 if table.small else 400
    maps = (MaclaurinMap.draw(cubic, 5, 64, seed)(X) for seed in range(draws))
    grams = np.stack([F @ F.T for F in maps])
    off = np.abs(grams.mean(axis=0) - cubic(X)) / (grams.std(axis=0) / draws**0.5)
    table.row(
        "Dot product kernels (Kar and Karnick)",
        "There are random features for polynomials",
        f"mean of {draws} maps within {off.max():.1f} standard errors",
        off.max() < 5,
    )
    widths = [128, 256, 512] if table.small else [256, 512, 1024, 2048]
    times: dict[str, list[float]] = {"iid": [], "structured": []}
    for p in widths:
        rows = rng.standard_normal((500, p)).astype(np.float32)
        for word, found in times.items():
            phi = FourierMap.draw(Gaussian(gamma=1 / p), p, 2048, 0, word)
            found.append(seconds(lambda phi=phi, rows=rows: phi.components(rows, "float32")))
    dense, fast = (exponent(widths, times[word]) for word in ("iid", "structured"))
    table.row(
        "Fastfood (Le and others 2013)",
        "O(c log p) in place of O(c p)",
        f"p^{fast:.2f} by sign flips and Hadamard transforms, p^{dense:.2f} by a matrix, p of {listed(widths)}",
        fast < dense,
    )
    both = GAUSSIAN + LAPLACIAN
    parts = [FourierMap.draw(k, 5, 4096, i, "iid") for i, k in enumerate((GAUSSIAN, LAPLACIAN))]
    F = StackedMap(both, parts, [1.0, 1.0])(X)
    off = np.abs(F @ F.T - both(X)).max()
    table.row(
        "Several kernels",
        "Stack their random features",
        f"sum of two kernels off by {off:.3f}, c = 4,096 each",
        off < 0.15,
    )


def nystrom(table: Table) -> None:
    n, c, k = (300, 60, 20) if table.small else (800, 100, 40)
    X = np.random.default_rng(0).standard_normal((n, 5))
    G = GAUSSIAN(X)
    values, vectors = np.linalg.eigh(G)
    Gk = (vectors[:, -k:] * values[-k:]) @ vectors[:, -k:].T
    I = np.random.default_rng(1).choice(n, c, replace=False)  # noqa: E741 - the letter of the text
    C, small = G[:, I], G[np.ix_(I, I)]
    lam, U = np.linalg.eigh(small)
    lam, U = lam[-k:], U[:, -k:]
    by_hand = C @ (U / lam) @ U.T @ C.T
    phi = NystromMap(GAUSSIAN, X[I], rank=k)
    F, own = phi(X), C @ (U / np.sqrt(lam))
    off = np.abs(F @ F.T - by_hand).max()
    table.row("Nystrom approximation, steps 1 to 5", "G_nys = C G~_k^+ C^T", f"off by {off:.0e}", off < 1e-6)
    same = np.abs(own @ own.T - F @ F.T).max()
    table.row(
        "Nystrom feature map",
        "phi(x) = k_{x,I} U_k Lambda_k^{-1/2}",
        f"the same Gram matrix, off by {same:.0e}",
        same < 1e-6,
    )
    sizes = [64, 128, 256] if table.small else [128, 256, 512, 1024]
    power = exponent(
        sizes,
        [
            seconds(
                lambda m=m: (
                    NystromMap(
                        GAUSSIAN, X[:1].repeat(m, 0) + np.random.default_rng(m).standard_normal((m, 5))
                    ).whitening
                ),
                1,
            )
            for m in sizes
        ],
    )
    table.row(
        "Nystrom approximation",
        "O(c^3 + nck)",
        f"c^{power:.2f} for c of {listed(sizes)} (decomposition)",
        1.0 < power < 3.5,
    )
    seeds = range(3 if table.small else 6)
    worst, grown = -np.inf, []
    for rows in (n // 4, n // 2, n):
        part = G[:rows, :rows]
        most = -np.inf
        spectrum = np.linalg.eigvalsh(part)[::-1]
        for rank in (5, 20, 40):
            best = float(np.sqrt((spectrum[rank:] ** 2).sum()))
            for columns in (rank, 2 * rank, 4 * rank):
                if columns >= rows:
                    continue
                for seed in seeds:
                    Z = X[np.random.default_rng(seed).choice(rows, columns, replace=False)]
                    F = NystromMap(GAUSSIAN, Z, rank=rank)(X[:rows])
                    excess = float(np.linalg.norm(part - F @ F.T)) - best
                    most = max(most, excess / (rows / columns) ** 0.5)
                    worst = max(worst, excess / rows / (64 * rank / columns) ** 0.25)
        grown.append(most)
    table.row(
        "Theorem (Drineas and Mahoney 2005)",
        "|G - G_nys|_F <= |G - G_k|_F + O(sqrt(n / c))",
        f"the excess is at most {worst:.2f} of the theorem's own term, (64 k / c)^(1/4) n; over sqrt(n / c) "
        f"it is at most {listed(grown, 2)} for n of {n // 4}, {n // 2}, {n}, ranks 5 to 40"
        + (", so the slide's term lacks a factor that grows with n" if grown[-1] > 1.3 * grown[0] else ""),
        worst <= 1,
    )
    errors = {}
    for rule in RULES:
        if rule == "stratified":
            continue
        orders = [np.random.default_rng(seed).permutation(n) for seed in seeds]
        chosen = [select_landmarks(rule, GAUSSIAN, X[order], c, seed) for seed, order in enumerate(orders)]
        maps = [NystromMap(GAUSSIAN, landmarks.points)(X) for landmarks in chosen]
        errors[rule] = float(np.mean([np.linalg.norm(G - F @ F.T) for F in maps]))
    best = min(errors, key=errors.__getitem__)
    table.row(
        "Nonuniform sampling",
        "Uniform sampling tends to work best in practice (Kumar and others 2009)",
        ", ".join(f"{rule} {value / errors['uniform']:.2f}" for rule, value in errors.items()) + " of uniform's error",
        best == "uniform",
    )
    table.row(
        "Best rank-k approximation",
        "G_k = U_k Lambda_k U_k^T",
        f"|G - G_k|_F is the root of the squared eigenvalues left out, off by "
        f"{abs(np.linalg.norm(G - Gk) - np.sqrt((values[:-k] ** 2).sum())):.0e}",
        True,
    )


def rates(table: Table) -> None:
    n, seeds = (400, range(2)) if table.small else (1000, range(4))
    X = np.random.default_rng(0).standard_normal((n, 5))
    counts = [16, 32, 64, 128] if table.small else [16, 32, 64, 128, 256]
    lines, slopes, cost = {}, {}, {}
    for name, kernel in (("Gaussian", GAUSSIAN), ("Laplacian", LAPLACIAN)):
        G = kernel(X)
        for way in ("Nystrom", "random features"):
            found = []
            for c in counts:
                each = []
                for seed in seeds:
                    if way == "Nystrom":
                        Z = X[np.random.default_rng(seed).choice(n, c, replace=False)]
                        F = NystromMap(kernel, Z)(X)
                    else:
                        F = FourierMap.draw(kernel, 5, c, seed, "iid")(X)
                    each.append(np.linalg.norm(G - F @ F.T) / np.linalg.norm(G))
                found.append(float(np.mean(each)))
            lines[f"{way}, {name}"] = (counts, found)
            slopes[way, name] = exponent(counts, found)
    for way, make in (
        ("Nystrom", lambda: NystromMap(GAUSSIAN, X[: counts[-1]])(X)),
        ("random", lambda: FourierMap.draw(GAUSSIAN, 5, counts[-1], 0, "iid")(X)),
    ):
        cost[way] = seconds(make)
    table.row(
        "Nystrom vs. random features",
        "Both O(1 / sqrt(c)); Nystrom O(1 / c) where the eigengap is large",
        "slopes " + ", ".join(f"{way}, {name} {value:.2f}" for (way, name), value in slopes.items()),
        slopes["Nystrom", "Gaussian"] < -1
        and all(-0.8 < slopes["random features", k] < -0.3 for k in ("Gaussian", "Laplacian")),
    )
    last = {name: values[-1] for name, (_, values) in lines.items()}
    table.row(
        "Nystrom vs. random features",
        "At equal c Nystrom is better, random features are cheaper",
        f"error {last['Nystrom, Gaussian'] / last['random features, Gaussian']:.1e} of theirs, CPU seconds "
        f"{cost['Nystrom'] / cost['random']:.1f} times, c = {counts[-1]}",
        last["Nystrom, Gaussian"] < last["random features, Gaussian"] and cost["Nystrom"] > cost["random"],
    )
    table.pictures.append(
        Picture(
            "sources-000-rates", "000: error of the Gram matrix", "components c", "|G - G'| / |G|, Frobenius", lines
        )
    )
    table.row(
        "Conclusion",
        "Lacks a solid large-scale comparison",
        "scripts/bench/STUDY.md, from 15,000 rows to a hundred million",
        True,
    )
    X, _ = noisy(2000)
    pipe = FourierFeatures(Gaussian(gamma=0.05), n_components=512, sampling="iid", form="offset", random_state=0)
    F = pipe.fit_transform(X)
    off = np.abs(F[:200] @ F[:200].T - Gaussian(gamma=0.05)(X[:200])).mean()
    table.row(
        "Random kernel features, steps 1 to 4",
        "sqrt(2 / c) cos(w x + b), then a linear SVM",
        f"kernel off by {off:.3f} on average at c = 512; the SVM in 001",
        off < 0.06,
    )
