"""Forest cover: one pass of dkernel on Nystrom columns against scikit-learn's Nystroem and SGD, also in one pass.

Class 2 against the rest, or all seven classes with `--all-classes`. Standardized columns, Gaussian(gamma=0.05); with
`--choose` kernel, gamma and metric choose themselves. Seconds count from data in memory, as floats, to a fitted model,
those of the choice among them.

    python scripts/bench/covtype.py --components 2000 5000
    python scripts/bench/covtype.py --components 5000 --choose --no-sklearn
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
from report import DATA, finish, forest, measured
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
    with measured() as fit:
        model.fit(X, y)
    with measured() as prediction:
        labels = model.predict(X_test)
    print(f"{name}: {fit.seconds:.1f} s", file=sys.stderr)
    return {
        "model": name,
        "error_%": 100 * float((labels != y_test).mean()),
        "fit_s": fit.seconds,
        "fit_rows_s": len(X) / fit.seconds,
        "predict_rows_s": len(X_test) / prediction.seconds,
        "peak_mib": max(fit.peak_mib, prediction.peak_mib),
    }


def main(arguments: list[str] | None = None) -> int:
    ask = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ask.add_argument("--data", type=Path, default=DATA)
    ask.add_argument("--components", type=int, nargs="+", default=[2000, 5000])
    ask.add_argument("--gamma", type=float, default=0.05)
    ask.add_argument("--loss", default="squared_hinge")
    ask.add_argument("--passes", type=lambda text: text if text == "auto" else int(text), default="auto")
    ask.add_argument("--rows", type=int, help="only the first rows of the training file")
    ask.add_argument("--all-classes", action="store_true")
    ask.add_argument("--choose", action="store_true", help="the defaults of kernel, gamma, scale and metric")
    ask.add_argument("--no-sklearn", action="store_true")
    ask.add_argument("--seed", type=int, default=0)
    ask.add_argument("--json", action="store_true", help="only the JSON line")
    args = ask.parse_args(arguments)
    data, rows = forest(args.data, args.rows, None if args.all_classes else 2), []
    for m in args.components:
        given = {} if args.choose else {"kernel": "gaussian", "gamma": args.gamma, "scale": "standard"}
        model = KernelClassifier(
            features="nystrom",
            n_components=m,
            loss=args.loss,
            passes=args.passes,
            random_state=args.seed,
            **given,
        )
        rows.append(run_one(f"dkernel {m}", model, data))
        for name, why in model.chosen_.items():
            print(f"  {name}: {why}", file=sys.stderr)
    if not args.no_sklearn:
        m = min(args.components)
        rows.append(run_one(f"Nystroem+SGD {m}", StreamedNystroem(args.gamma, m, args.seed), data))
    task = "7 classes" if args.all_classes else "class 2 against the rest"
    setting = "all chosen" if args.choose else f"gamma {args.gamma}"
    finish(f"covtype, {task}, {setting}", rows, args.json, passes=args.passes, n=len(data[0]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
