"""Seconds of exact Shapley values, and of shap's KernelExplainer, which samples coalitions, on data that are made.

The model has a Gaussian kernel at landmarks, so `dkernel.explain` is exact. `shap` (pip install shap) explains some of
the rows, with the same background and as many coalitions as it takes by itself (2 columns + 2,048); its seconds for all
rows are those of a row times the rows. `off` is the largest difference from exact values over the largest of these.

    python scripts/bench/explain.py
    python scripts/bench/explain.py --rows 1000 --shap-rows 0
"""

import numpy as np
from report import finish, measure_block, parser

from dkernel import KernelRegressor, explain


def main() -> None:
    """Print a line for each of the two."""
    ask = parser(__doc__)
    ask.add_argument("--rows", type=int, default=10_000, help="rows to explain")
    ask.add_argument("--columns", type=int, default=20)
    ask.add_argument("--landmarks", type=int, default=1024)
    ask.add_argument("--background", type=int, default=100, help="rows of the background")
    ask.add_argument("--shap-rows", type=int, default=5, help="rows that shap explains, 0 for none")
    o = ask.parse_args()
    rng = np.random.default_rng(0)
    X = rng.normal(size=(10_000 + o.rows, o.columns)).astype(np.float32)
    y = np.sin(2 * X[:, 0]) * X[:, 1] + X[:, 2] + 0.1 * rng.normal(size=len(X))
    machine = KernelRegressor("gaussian", gamma=0.02, n_components=o.landmarks, metric="identity", local="none")
    machine.fit(X[:10_000], y[:10_000])
    rows, background = X[10_000:], X[: o.background]
    explain(machine, rows[:1], background)  # compiles
    with measure_block() as exact:
        found = explain(machine, rows, background)
    assert found.errors is None
    lines = [{"by": "dkernel, exact", "explained": len(rows), "seconds": exact.seconds, "cpu_s": exact.cpu}]
    if o.shap_rows:
        import shap

        explainer = shap.KernelExplainer(machine.predict, background)
        with measure_block() as sampled:
            values = explainer.shap_values(rows[: o.shap_rows], silent=True)
        times, known = len(rows) / o.shap_rows, found.values[: o.shap_rows]
        lines.append({"by": "shap, sampled", "explained": o.shap_rows, "seconds": times * sampled.seconds})
        lines[-1] |= {"cpu_s": times * sampled.cpu, "off": np.abs(values - known).max() / np.abs(known).max()}
    finish(f"Shapley values of {len(rows):,} rows", lines, o.json)


if __name__ == "__main__":
    main()
