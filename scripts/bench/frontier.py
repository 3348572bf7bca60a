"""Error against seconds on forest cover, class 2 against the rest: dkernel's ways beside what others use; one picture.

Each point is one fit to all rows, in memory, on all cores; its line is appended to a file, and points that the file
holds are not measured again. Falkon's, which needs a build of its own, was measured on 2026-11-20. An exact support
vector machine is fitted to 10,000 and 20,000 rows. With nothing given the whole command was timed, by plain.py.

    python scripts/bench/frontier.py
    python scripts/bench/frontier.py --only "dkernel, grids" --lines some.jsonl --png some.png
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from report import ROOT, Rows, boosted_trees, error_of, finish, forest, machine, measure_block, parser

from dkernel import Grids, KernelClassifier

Fit = Callable[[Rows], Any]
FIGURES = ROOT / "scripts" / "bench" / "figures"


def ours(**settings: Any) -> Fit:
    return lambda data: KernelClassifier(**settings).fit(*data[:2])


def trees(n: int, leaves: int) -> Fit:
    return lambda data: boosted_trees(False, n, leaves, threads=-1).fit(*data[:2])


def nystroem(n: int) -> Fit:
    def fit(data: Rows) -> Any:
        from sklearn.kernel_approximation import Nystroem
        from sklearn.linear_model import SGDClassifier
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        model = make_pipeline(
            StandardScaler(), Nystroem(gamma=0.05, n_components=n, random_state=0), SGDClassifier(max_iter=1, tol=None)
        )
        return model.fit(*data[:2])

    return fit


def exact(rows: int) -> Fit:
    def fit(data: Rows) -> Any:
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler
        from sklearn.svm import SVC

        return make_pipeline(StandardScaler(), SVC(C=100, gamma=0.2)).fit(data[0][:rows], data[1][:rows])

    return fit


POINTS: dict[str, dict[str, Fit]] = {
    "dkernel, landmarks": {f"{n:,}": ours(n_components=n, local="none") for n in (1000, 2000, 5000)},
    "dkernel, grids": {f"{n:,}": ours(kernel="linear", local=Grids(n_grids=n)) for n in (128, 384, 1024, 3072)},
    "dkernel, cells": {"4,096 rows": ours(n_components=1024, local="cells")},
    "LightGBM": {"100 x 31": trees(100, 31), "500 x 255": trees(500, 255), "2,000 x 255": trees(2000, 255)},
    "scikit-learn, Nystroem and SGD": {f"{n:,}": nystroem(n) for n in (500, 1000)},
    "scikit-learn, SVC": {f"{rows:,} rows": exact(rows) for rows in (10_000, 20_000)},
}


def measure(way: str, name: str, data: Rows) -> dict[str, Any]:
    """The line of one point."""
    with measure_block() as fit:
        model = POINTS[way][name](data)
    X, y = data[2:]
    error = error_of(model.predict(X), y)
    print(f"{way} {name}: {error:.2f} %, {fit.seconds:.1f} s", file=sys.stderr)
    return {"way": way, "name": name, "seconds": fit.seconds, "error_%": error, **machine()}


def draw(lines: list[dict[str, Any]], rows: int, path: Path) -> None:
    """The picture."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 5.2), layout="constrained")
    axes = figure.subplots()
    for way in dict.fromkeys([*POINTS, *(line["way"] for line in lines)]):
        points = [line for line in lines if line["way"] == way]
        if points and way != "scikit-learn, SVC":
            seconds, errors = [p["seconds"] for p in points], [p["error_%"] for p in points]
            ours = way.startswith("dkernel")
            axes.plot(seconds, errors, "o-" if ours else "s--", label=way, linewidth=2 if ours else 1.2)
            for point in points:
                axes.annotate(
                    point["name"], (point["seconds"], point["error_%"]), (5, 5), textcoords="offset points", fontsize=8
                )
    for line in [line for line in lines if line["way"] == "scikit-learn, SVC"][-1:]:
        axes.plot([], [], " ", label=f"exact SVM: {line['name']} in {line['seconds']:.0f} s")
    axes.set(xscale="log", yscale="log", xlabel="seconds of the fit, two cores", ylabel="test error, %")
    axes.set_yticks([2, 3, 5, 10, 15, 20], ["2", "3", "5", "10", "15", "20"])
    axes.minorticks_off()
    axes.set_title(f"Forest cover, class 2 against the rest: {rows:,} rows of 54 features")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=9)
    figure.savefig(path, dpi=90)


def main() -> None:
    options = parser(__doc__, data=True)
    options.add_argument("--rows", type=int, help="the first rows only")
    options.add_argument("--lines", type=Path, default=FIGURES / "frontier.jsonl", help="file of measured points")
    options.add_argument("--png", type=Path, default=FIGURES / "frontier.png", help="the picture")
    options.add_argument("--only", nargs="*", default=list(POINTS), help="ways to measure; none draws alone")
    o = options.parse_args()
    lines = [json.loads(line) for line in o.lines.read_text().splitlines()] if o.lines.exists() else []
    known = {(line["way"], line["name"]) for line in lines}
    data = forest(o.data, o.rows)
    KernelClassifier(n_components=64, local="grids(n_grids=16)").fit(data[0][:5000], data[1][:5000])  # compiles
    for way in o.only:
        for name in POINTS[way]:
            if (way, name) not in known:
                lines.append(measure(way, name, data))
                with o.lines.open("a") as file:
                    file.write(json.dumps(lines[-1]) + "\n")
    draw(lines, len(data[0]), o.png)
    shown = ("way", "name", "seconds", "error_%")
    finish("forest cover, error and seconds", [{key: line[key] for key in shown} for line in lines], o.json)


if __name__ == "__main__":
    main()
