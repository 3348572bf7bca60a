"""Forest cover: error, seconds and memory by the number of components, and scikit-learn's Nystroem and SGD beside them.

Class 2 against the rest, or all seven classes with `--all-classes`. Standardized columns, Gaussian(gamma=0.05); with
`--choose` gamma, scale and metric choose themselves. Seconds count from data in memory, as floats, to a fitted model,
those of the choice among them. scikit-learn makes one pass over as many components as the smallest fit. A fit that
takes longer than `--minutes` is the last.

    python scripts/bench/covtype.py --components 2000 5000
    python scripts/bench/covtype.py --components 1000 2000 5000 10000 15000 --choose --passes 1 --no-sklearn
    python scripts/bench/covtype.py --components 500000 --features fourier --rows 50000 --no-sklearn
"""

import sys
from typing import Any

import numpy as np
from report import error_of, finish, forest, measure_block, parser
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import SGDClassifier
from sklearn.preprocessing import StandardScaler

from dkernel import KernelClassifier

CHUNK = 8192  # rows that scikit-learn transforms at once: all of them would be 4 GB of columns


class StreamedNystroem:
    """scikit-learn's parts in the way its documentation streams them: a fitted map, then partial_fit by chunk."""

    def __init__(self, gamma: float, n_components: int, seed: int) -> None:
        self.scaler = StandardScaler()
        self.map = Nystroem(gamma=gamma, n_components=n_components, random_state=seed)
        self.linear = SGDClassifier(alpha=1e-6, average=True, random_state=seed)

    def fit(self, X: Any, y: Any) -> "StreamedNystroem":
        self.map.fit(self.scaler.fit_transform(X))
        for i in range(0, len(X), CHUNK):
            phi = self.map.transform(self.scaler.transform(X[i : i + CHUNK]))
            self.linear.partial_fit(phi, y[i : i + CHUNK], classes=np.unique(y))
        return self

    def predict(self, X: Any) -> Any:
        parts = (X[i : i + CHUNK] for i in range(0, len(X), CHUNK))
        return np.concatenate([self.linear.predict(self.map.transform(self.scaler.transform(part))) for part in parts])


def run_one(name: str, model: Any, data: tuple[Any, ...]) -> dict[str, Any]:
    """One line of the table."""
    X, y, X_test, y_test = data
    with measure_block() as fit:
        model.fit(X, y)
    with measure_block() as prediction:
        labels = model.predict(X_test)
    print(f"{name}: {fit.seconds:.1f} s", file=sys.stderr)
    return {
        "model": name,
        "error_%": error_of(labels, y_test),
        "fit_s": fit.seconds,
        "fit_rows_s": len(X) / fit.seconds,
        "predict_rows_s": len(X_test) / prediction.seconds,
        "peak_mib": max(fit.peak_mib, prediction.peak_mib),
    }


def main(arguments: list[str] | None = None) -> int:
    ask = parser(__doc__, data=True)
    ask.add_argument("--components", type=int, nargs="+", default=[2000, 5000])
    ask.add_argument("--kernel", default="gaussian")
    ask.add_argument("--gamma", type=float, default=0.05)
    ask.add_argument("--features", default="nystrom")
    ask.add_argument("--loss", default="squared_hinge")
    ask.add_argument("--passes", type=lambda text: text if text == "auto" else int(text), default="auto")
    ask.add_argument("--rows", type=int, help="only the first rows of the training file")
    ask.add_argument("--all-classes", action="store_true")
    ask.add_argument("--choose", action="store_true", help="the defaults of gamma, scale and metric")
    ask.add_argument("--no-sklearn", action="store_true")
    ask.add_argument("--minutes", type=float, default=15.0, help="a fit that takes longer is the last")
    ask.add_argument("--seed", type=int, default=0)
    args = ask.parse_args(arguments)
    data, rows = forest(args.data, args.rows, None if args.all_classes else 2), []
    for m in args.components:
        given = {"features": args.features, "n_components": m, "loss": args.loss, "passes": args.passes}
        given |= {} if args.choose else {"gamma": args.gamma, "scale": "standard"}
        model = KernelClassifier(args.kernel, random_state=args.seed, **given)
        rows.append(run_one(f"dkernel {m}", model, data))
        for name, why in model.chosen_.items():
            print(f"  {name}: {why}", file=sys.stderr)
        if rows[-1]["fit_s"] > 60 * args.minutes:
            break
    if not args.no_sklearn:
        m = min(args.components)
        rows.append(run_one(f"Nystroem+SGD {m}", StreamedNystroem(args.gamma, m, args.seed), data))
    task = "7 classes" if args.all_classes else "class 2 against the rest"
    setting = "all chosen" if args.choose else f"gamma {args.gamma}"
    finish(f"covtype, {task}, {setting}", rows, args.json, passes=args.passes, n=len(data[0]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
