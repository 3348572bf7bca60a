"""The default beside a linear model on twenty made sets: it should never be much worse.

    python scripts/bench/linear.py [--only NAME ...] [--rows 3000] [--json]

Noise alone, one feature, many features, heavy tails, many or rare classes, one-hot tables, rules that are linear:
errors on rows that were not learned from, of classes the share of wrong answers, of numbers the root mean square error
over that of the mean. `much` is more than MUCH of the linear model's and two standard errors above it.
"""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from report import finish, parser
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dkernel import KernelClassifier, KernelRegressor

MUCH = 1.05
TEST = 4000  # rows

Rows = tuple[np.ndarray, np.ndarray]
Random = np.random.Generator


def _normal(r: Random, n: int, p: int) -> np.ndarray:
    return r.standard_normal((n, p))


def _weights(p: int) -> np.ndarray:
    return np.random.default_rng(p).standard_normal(p) / np.sqrt(p)


def _linear(r: Random, n: int, p: int, noise: float) -> Rows:
    X = _normal(r, n, p)
    return X, X @ _weights(p) + noise * r.standard_normal(n)


def _classes(r: Random, n: int, p: int, k: int) -> Rows:
    X = _normal(r, n, p)
    W = np.random.default_rng(k).standard_normal((p, k))
    return X, (2 * X @ W + r.gumbel(size=(n, k))).argmax(axis=1)


def _one_hot(r: Random, n: int, columns: int, levels: int) -> np.ndarray:
    codes = r.integers(0, levels, (n, columns))
    return (codes[:, :, None] == np.arange(levels)).reshape(n, -1).astype(float)


def _tails(r: Random, n: int) -> Rows:
    X = r.standard_t(1.5, (n, 10))
    return X, np.tanh(X[:, 0]) + 0.3 * X[:, 1].clip(-5, 5) + 0.3 * r.standard_normal(n)


def _rare(r: Random, n: int, share: float) -> Rows:
    y = (r.random(n) < share).astype(int)
    y[:2] = 1  # so that there are two classes
    return _normal(r, n, 10) + 2.0 * y[:, None], y


def _hot(r: Random, n: int, number: bool) -> Rows:
    X = _one_hot(r, n, 6, 12)
    score = X @ (3 * _weights(72)) + 0.3 * r.standard_normal(n)
    return X, score if number else (score > 0).astype(int)


def _one_of(r: Random, n: int) -> Rows:
    X = _normal(r, n, 300)
    return X, X[:, 0] + 0.3 * r.standard_normal(n)


def _heavy(r: Random, n: int) -> Rows:
    X = _normal(r, n, 5)
    return X, X.sum(axis=1) + r.standard_t(1.8, n)


def _units(r: Random, n: int) -> Rows:
    X = _normal(r, n, 6)
    return X * 10.0 ** np.arange(-6, 6, 2), X.sum(axis=1) + 0.3 * r.standard_normal(n)


def _binary(rows: Rows) -> Rows:
    return rows[0], (rows[1] > 0).astype(int)


SETS: dict[str, Callable[[Random, int], Rows]] = {
    "noise, a number": lambda r, n: (_normal(r, n, 10), r.standard_normal(n)),
    "noise, classes": lambda r, n: (_normal(r, n, 10), r.integers(0, 2, n)),
    "noise, 9 to 1": lambda r, n: (_normal(r, n, 10), (r.random(n) < 0.1).astype(int)),
    "one feature, line": lambda r, n: _linear(r, n, 1, 0.5),
    "one feature, classes": lambda r, n: _binary(_linear(r, n, 1, 0.5)),
    "line of 10": lambda r, n: _linear(r, n, 10, 0.3),
    "line of 10, no noise": lambda r, n: _linear(r, n, 10, 0.0),
    "line of 100": lambda r, n: _linear(r, n, 100, 0.5),
    "2,000 features": lambda r, n: _linear(r, n, 2000, 0.1),
    "2,000 features, classes": lambda r, n: _binary(_linear(r, n, 2000, 0.1)),
    "one of 300 counts": _one_of,
    "heavy tails": _tails,
    "heavy noise": _heavy,
    "20 classes": lambda r, n: _classes(r, n, 20, 20),
    "500 classes": lambda r, n: _classes(r, n, 30, 500),
    "1 to 100": lambda r, n: _rare(r, n, 1e-2),
    "1 to 10,000": lambda r, n: _rare(r, n, 1e-4),
    "one-hot, a number": lambda r, n: _hot(r, n, True),
    "one-hot, classes": lambda r, n: _hot(r, n, False),
    "units apart": _units,
}


def error(truth: np.ndarray, found: np.ndarray, number: bool) -> tuple[float, np.ndarray]:
    """The error, and each row's part of it."""
    each = (found - truth) ** 2 / np.var(truth) if number else (found != truth).astype(float)
    return float(np.sqrt(each.mean()) if number else each.mean()), each


def one(name: str, n: int) -> dict[str, Any]:
    """Both errors on one set."""
    X, y = SETS[name](np.random.default_rng(1), n + TEST)
    number = y.dtype.kind == "f"
    ours = KernelRegressor() if number else KernelClassifier()
    plain = RidgeCV(np.logspace(-4, 5, 10)) if number else LogisticRegression(max_iter=300)
    linear = make_pipeline(StandardScaler(), plain)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [error(y[n:], model.fit(X[:n], y[:n]).predict(X[n:]), number) for model in (ours, linear)]
    (mine, each), (theirs, other) = found
    spread = float((each - other).std() / np.sqrt(len(each)))
    much = mine > MUCH * theirs and float((each - other).mean()) > 2 * spread
    return {"set": name, "dkernel": mine, "linear": theirs, "ratio": mine / max(theirs, 1e-12), "much": much}


def main() -> None:
    """Print the table."""
    options = parser(__doc__)
    options.add_argument("--only", nargs="+", choices=list(SETS), default=list(SETS))
    options.add_argument("--rows", type=int, default=3000)
    given = options.parse_args()
    found = [one(name, given.rows) for name in given.only]
    worse = [row["set"] for row in found if row["much"]]
    finish("The default beside a linear model", found, given.json, worse=worse)


if __name__ == "__main__":
    main()
