"""Forest cover, class 2 against the rest: test error, seconds and memory as the components grow, from a thousand on.

Kernel, gamma, scale and metric choose themselves for each number of components. Up to 20,000 these are landmarks',
above that random cosines and sines; `--features` says otherwise. Above 20,000 a sketch preconditions, which knows fewer
directions than there are: there `--wide-passes` passes are made. Seconds count from data in memory, as floats, to a
fitted model. Points are taken in order until one takes longer than `--minutes`, which is the last.

    python scripts/bench/large.py
    python scripts/bench/large.py --components 50000 --features nystrom
    python scripts/bench/large.py --components 500000 --features fourier --rows 50000 --wide-passes 1
"""

import argparse
import sys
from pathlib import Path
from typing import Any

from report import DATA, finish, forest, measured

from dkernel import KernelClassifier

COMPONENTS = [1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000]
WIDE = 20_000  # components above which no squares of them are made


def point(args: argparse.Namespace, components: int, data: tuple[Any, ...]) -> dict[str, Any]:
    """One line of the table."""
    X, y, X_test, y_test = data
    passes = args.wide_passes if components > WIDE else args.passes
    model = KernelClassifier(
        args.kernel,
        gamma=args.gamma,
        features=args.features,
        n_components=components,
        metric=args.metric,
        passes=passes,
        random_state=args.seed,
    )
    with measured() as fit:
        model.fit(X, y)
    with measured() as prediction:
        labels = model.predict(X_test)
    for name, why in model.chosen_.items():
        print(f"  {name}: {why}", file=sys.stderr)
    row = {
        "components": components,
        "map": model.model_.map.kind,
        "passes": passes,
        "metric": model.model_.recipe.metric,
        "error_%": 100 * float((labels != y_test).mean()),
        "fit_s": fit.seconds,
        "predict_s": prediction.seconds,
        "peak_mib": max(fit.peak_mib, prediction.peak_mib),
    }
    print(row, file=sys.stderr, flush=True)
    return row


def main(arguments: list[str] | None = None) -> int:
    ask = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ask.add_argument("--data", type=Path, default=DATA)
    ask.add_argument("--components", type=int, nargs="+", default=COMPONENTS)
    ask.add_argument("--features", default="auto")
    ask.add_argument("--kernel", default="gaussian")
    ask.add_argument("--gamma", type=lambda text: text if text in ("auto", "median") else float(text), default="auto")
    ask.add_argument("--metric", default="auto")
    ask.add_argument("--passes", type=int, default=1, help="up to 20,000 components")
    ask.add_argument("--wide-passes", type=int, default=4, help="above 20,000 components")
    ask.add_argument("--rows", type=int, help="only the first rows of the training file")
    ask.add_argument("--minutes", type=float, default=15.0, help="a point that takes longer is the last")
    ask.add_argument("--seed", type=int, default=0)
    ask.add_argument("--json", action="store_true", help="only the JSON line")
    args = ask.parse_args(arguments)
    data = forest(args.data, args.rows)
    rows: list[dict[str, Any]] = []
    for components in args.components:
        rows.append(point(args, components, data))
        if rows[-1]["fit_s"] > 60 * args.minutes:
            break
    finish("covtype, class 2 against the rest, by components", rows, args.json, n=len(data[0]), minutes=args.minutes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
