"""Seconds of exact Shapley values, and of shap's KernelExplainer, which samples coalitions, on data that are made.

The model has a Gaussian kernel at landmarks, so `dkernel.explain` is exact. `shap` (pip install shap) explains some of
the rows, with the same background and as many coalitions as it takes by itself (2 columns + 2,048); its seconds for all
rows are those of a row times the rows. `off` is the largest difference from exact values over the largest of these.

    python scripts/bench/explain.py
    python scripts/bench/explain.py --rows 1000 --shap-rows 0
"""

import argparse
import sys
import time

import numpy as np

from dkernel import KernelRegressor, explain


def main(arguments: list[str] | None = None) -> int:
    """Print a line for each of the two."""
    ask = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ask.add_argument("--rows", type=int, default=10_000, help="rows to explain")
    ask.add_argument("--columns", type=int, default=20)
    ask.add_argument("--landmarks", type=int, default=1024)
    ask.add_argument("--background", type=int, default=100, help="rows of the background")
    ask.add_argument("--shap-rows", type=int, default=5, help="rows that shap explains, 0 for none")
    o = ask.parse_args(arguments)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(10_000 + o.rows, o.columns)).astype(np.float32)
    y = np.sin(2 * X[:, 0]) * X[:, 1] + X[:, 2] + 0.1 * rng.normal(size=len(X))
    machine = KernelRegressor("gaussian", gamma=0.02, n_components=o.landmarks, metric="identity", local="none")
    machine.fit(X[:10_000], y[:10_000])
    rows, background = X[10_000:], X[: o.background]
    explain(machine, rows[:1], background)  # compiles
    start, used = time.perf_counter(), time.process_time()
    found = explain(machine, rows, background)
    wall, cpu = time.perf_counter() - start, time.process_time() - used
    assert found.errors is None
    print(f"dkernel, exact   {len(rows):,} rows: {wall:.3g} s, {cpu:.3g} CPU s")
    if not o.shap_rows:
        return 0
    try:
        import shap
    except ImportError:
        print("shap is not installed: pip install shap", file=sys.stderr)
        return 1
    explainer = shap.KernelExplainer(machine.predict, background)
    start, used = time.perf_counter(), time.process_time()
    values = explainer.shap_values(rows[: o.shap_rows], silent=True)
    wall, cpu = (each * len(rows) / o.shap_rows for each in (time.perf_counter() - start, time.process_time() - used))
    exact = found.values[: o.shap_rows]
    off = np.abs(values - exact).max() / np.abs(exact).max()
    print(
        f"shap, sampled    {len(rows):,} rows: {wall:.3g} s, {cpu:.3g} CPU s by {o.shap_rows} of them; off by {off:.2g}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
