"""001, M. Fabien, "Large Scale Kernel Methods": a blog text with code, a table and pseudo-code."""

from typing import Any

import numpy as np
from sklearn.datasets import make_classification
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from texts.rows import Picture, Table, listed, seconds

from dkernel import FourierFeatures, Gaussian, KernelClassifier, NystromFeatures

BLOG = {"LinearSVC": (0.868, 0.334, 0.016), "SVC, rbf": (0.891, 375.102, 40.148)}
"""Accuracy and seconds of fit and prediction that the text prints, of 100,000 rows."""


def run(small: bool, rows: int = 20_000) -> Table:
    """The table and the picture of the text, on its own data."""
    table = Table("001", "Fabien, Large Scale Kernel Methods (blog)", small)
    X, y = make_classification(n_samples=2000 if small else rows, random_state=5)
    X, X_test, y, y_test = train_test_split(X, y, random_state=42)
    scaler = StandardScaler().fit(X)
    X, X_test = scaler.transform(X), scaler.transform(X_test)
    gamma = 1 / X.shape[1]  # what SVC calls "scale", of standardized columns
    c = 400 if small else 1000

    def fourier(c: int) -> Any:
        # The pseudo-code: w ~ N(0, 2 gamma), b ~ U(0, 2 pi), sqrt(2 / c) cos(w x + b), then a linear SVM.
        phi = FourierFeatures(Gaussian(gamma=gamma), n_components=c, sampling="iid", form="offset", random_state=0)
        return make_pipeline(phi, LinearSVC(dual=False))

    def nystrom(c: int) -> Any:
        return make_pipeline(
            NystromFeatures(Gaussian(gamma=gamma), n_components=c, random_state=0), LinearSVC(dual=False)
        )

    models = {
        "LinearSVC": LinearSVC(dual=False),
        "SVC, rbf": SVC(kernel="rbf"),
        f"random Fourier features + linear SVM, c = {c:,}": fourier(c),
        f"Nystrom + linear SVM, c = {c:,}": nystrom(c),
        "KernelClassifier()": KernelClassifier(random_state=0),
    }
    accuracy: dict[str, float] = {}
    for name, model in models.items():
        fit = seconds(lambda model=model: model.fit(X, y), 1)
        score = seconds(lambda model=model: model.predict(X_test), 1)
        accuracy[name] = float((model.predict(X_test) == y_test).mean())
        said = BLOG.get(name)
        table.row(
            "In Python" if said else "Pseudo-Code" if "Fourier" in name else "Nystrom approximation",
            f"{name}: accuracy {said[0]}, {said[1]} s and {said[2]} s" if said else f"{name}: announced, no figures",
            f"accuracy {accuracy[name]:.3f}, {fit:.2f} and {score:.2f} CPU s, {len(X):,} and {len(X_test):,} rows",
            accuracy[name] > accuracy.get("SVC, rbf", accuracy["LinearSVC"]) - 0.05,
        )
    rbf = accuracy["SVC, rbf"]
    table.row(
        "In Python",
        "The Gaussian kernel is more accurate than the linear machine",
        f"{rbf:.3f} and {accuracy['LinearSVC']:.3f}",
        rbf > accuracy["LinearSVC"],
    )
    counts = [25, 50, 100, 200, 400] if small else [25, 50, 100, 200, 400, 800]
    lines: dict[str, Any] = {}
    for name, make in (("random Fourier features", fourier), ("Nystrom", nystrom)):
        lines[name] = (counts, [float((make(k).fit(X, y).predict(X_test) == y_test).mean()) for k in counts])
    gaps = {name: [rbf - value for value in values] for name, (_, values) in lines.items()}
    first, last = gaps["random Fourier features"][0], gaps["random Fourier features"][-1]
    table.row(
        "Kernel approximation",
        "The approximation converges to the RBF kernel",
        f"accuracy below the rbf line at c of {listed(counts)}: {listed(gaps['random Fourier features'], 2)}; Nystrom "
        f"{listed(gaps['Nystrom'], 2)}",
        last < max(0.35 * first, 0.015),
    )
    errors = []
    points = X[:300]
    for k in counts:
        F = fourier(k)[0].fit_transform(points)
        errors.append(float(np.abs(F @ F.T - Gaussian(gamma=gamma)(points)).mean()))
    power = float(np.polyfit(np.log(counts), np.log(errors), 1)[0])
    table.row(
        "Conclusion", "The error of the kernel decreases in O(sqrt(1 / c))", f"c^{power:.2f}", -0.65 < power < -0.35
    )
    table.pictures.append(
        Picture(
            "accuracy",
            "001: accuracy over the number of features",
            "c",
            "accuracy on new rows",
            lines,
            {"SVC, rbf": rbf, "LinearSVC": accuracy["LinearSVC"]},
            ("log", "linear"),
        )
    )
    return table
