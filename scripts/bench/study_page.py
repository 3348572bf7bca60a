"""Tables and verdicts of the study from its lines: what stands between the marks of STUDY.md.

The words around the tables are the page's own. With --small the page of the small study is written beside its lines,
and what its points have in common with the lines of the repository is compared.

    python scripts/bench/study_page.py
    python scripts/bench/study_page.py --small
"""

import argparse
import math
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from report import ROOT, markdown
from study import LINES, SMALL, read
from study_lines import Lines
from study_points import (
    BELOW,
    COMPARED,
    MANY,
    METHODS,
    SETS,
    SIZES,
    TREES,
    WIDTH_MAPS,
    WIDTH_SETS,
    WIDTHS,
    Point,
    choice,
    full_rows,
    stages,
    within,
)
from study_verdicts import VERDICTS, metric_factors

PAGE = ROOT / "scripts" / "bench" / "STUDY.md"
PRICED = "covtype"
CHEAP, TINY = 5.0, 200_000  # seconds and bytes of the table of what is best
OTHERS = [("linear", 0), ("exact", 0), *(("LightGBM", trees) for trees in TREES)]


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of Markdown, without the rows that have nothing but a name."""
    lines = [row for row in rows if any(row[1:])]
    if not lines:
        return "Not run yet."
    return markdown(heads, lines)


def shown(name: str, figures: Sequence[float]) -> str:
    """An error: mean of the seeds, and half of their range where there are several."""
    if not figures:
        return ""
    mean, half = sum(figures) / len(figures), (max(figures) - min(figures)) / 2
    digits = 3 if SETS[name].regress else 2 if mean < 10 else 1
    return f"{mean:.{digits}f}" + (f" ± {half:.{digits}f}" if len(figures) > 1 else "")


def heads() -> list[str]:
    return [f"{name}, {'sd' if about.regress else '%'}" for name, about in SETS.items()]


def name_of(method: str, size: int) -> str:
    return f"LightGBM, {size} x {TREES[size]}" if method == "LightGBM" else method


def state(lines: Lines) -> str:
    """How much was run."""
    taken, left = within(stages())
    all_points = {point.key: point for point in (*taken, *left)}
    known = [key for key in lines.by_key if key in all_points]
    failed = sorted(key for key in known if "failed" in lines.by_key[key])
    done = {stage: sum(point.key in lines.by_key for point in points) for stage, points in stages().items()}
    hours = sum(line["fit_s"] for line in lines.points.values()) / 3600
    dates = sorted({line["date"] for line in lines.points.values()})
    parts = ", ".join(f"{stage} {n} of {len(stages()[stage])}" for stage, n in done.items())
    verdicts = [verdict(lines)[0] for verdict in VERDICTS]
    when = " to ".join(sorted({dates[0], dates[-1]}))
    said = [
        f"{len(known):,} of {len(all_points):,} points have been run ({when}); the fits took {hours:.2f} hours of one "
        f"core. By stage: {parts}.",
        f"{len(verdicts) - verdicts.count('open')} of {len(verdicts)} hypotheses have a verdict.",
    ]
    if failed:
        said.append("Failed: " + "; ".join(f"{key} ({lines.by_key[key]['failed']})" for key in failed) + ".")
    return " ".join(said)


def choices(lines: Lines) -> str:
    rows = []
    for name, about in SETS.items():
        gaussian, cubic = (lines.by_key.get(choice(name, kernel).key, {}) for kernel in ("gaussian", "polynomial"))
        if "gamma" in gaussian:
            more = f"{cubic['alpha']:.0e}" if "alpha" in cubic else ""
            rows.append([name, f"{full_rows(name):,}", f"{gaussian['tested']:,}", str(about.inputs),
                         f"{gaussian['gamma']:.3g}", f"{gaussian['alpha']:.0e}", more])  # fmt: skip
    return table(["set", "rows", "test rows", "features", "gamma", "alpha", "alpha, cubic"], rows)


def verdicts(lines: Lines) -> str:
    found = [verdict(lines) for verdict in VERDICTS]
    return "\n".join(f"{i}. **{word.capitalize()}.** {said}" for i, (word, said) in enumerate(found, 1))


def errors(size: int) -> Callable[[Lines], str]:
    """The table of one size; the machines beside the methods stand below 1,024."""

    def made(lines: Lines) -> str:
        asked = [(method, size) for method in COMPARED] + (OTHERS if size == BELOW else [])
        rows = [[name_of(m, n), *(shown(name, lines.figures(name, m, n)) for name in SETS)] for m, n in asked]
        return table(["", *heads()], rows)

    return made


def prices(lines: Lines) -> str:
    """What 1,024 cost on the set with the most features."""
    rows = []
    for method, size in [*((method, BELOW) for method in COMPARED), *OTHERS]:
        means = [
            lines.mean(PRICED, method, size, what) for what in ("error", "fit_s", "predict_s", "bytes", "peak_mib")
        ]
        if None not in means:
            error, fit, predict, nbytes, peak = means
            rows.append(
                [
                    name_of(method, size),
                    f"{error:.1f}",
                    f"{fit:.1f}",
                    f"{predict:.1f}",
                    f"{nbytes / 2**20:.2f}",
                    f"{peak:.0f}",
                ]
            )
    return table(["", "error, %", "fit, s", "predict a million, s", "model, MiB", "peak memory, MiB"], rows)


def width_table(lines: Lines) -> str:
    rows = []
    for name in WIDTH_SETS:
        for map in WIDTH_MAPS:
            for size in SIZES[1:]:
                cells = [shown(name, lines.figures(name, map, size, width=w)[:1]) for w in sorted((1.0, *WIDTHS))]
                rows.append([f"{name}, {map}, {size:,}", *cells])
    return table(["", *(f"{width:g} times" for width in sorted((1.0, *WIDTHS)))], rows)


def metric_table(lines: Lines) -> str:
    factors = metric_factors(lines)
    rows = []
    for name in SETS:
        cells = [shown(name, lines.figures(name, "metric off", size)[:1]) for size in SIZES]
        on = shown(name, lines.figures(name, "metric on", BELOW)[:1])
        rows.append([name, *cells, on, f"{factors[name]:.2f}" if name in factors else ""])
    return table(
        ["", *(f"off, {size:,}" for size in SIZES), f"on, {BELOW:,}", "factor"], [row for row in rows if row[4]]
    )


def many(lines: Lines) -> str:
    """Error and seconds of one core, at more rows than the full grid has; of the largest size the methods of ten
    million rows."""
    places = [(name, n) for name in SETS for n in lines.rows(name) if n > full_rows(name)]
    asked = [(method, BELOW) for method in COMPARED] + [(method, SIZES[-1]) for method in MANY]
    asked += [entry for entry in OTHERS if entry[0] != "exact"]
    rows = []
    for method, size in asked:
        cells = []
        for name, n in places:
            error = lines.mean(name, method, size, rows=n)
            cells.append(
                ""
                if error is None
                else f"{shown(name, [error])}, {lines.mean(name, method, size, 'fit_s', rows=n):.0f} s"
            )
        rows.append([name_of(method, size) + (f", {size:,}" if method in COMPARED else ""), *cells])
    return table(["", *(f"{name}, {n:,}" for name, n in places)], rows)


def best(lines: Lines) -> str:
    """The smallest error of each set: of all, of cheap fits, of small models."""
    rows = []
    for name in SETS:
        known = {
            (p.method, p.size): line
            for p, line in lines.points.items()
            if p == Point(name, full_rows(name), p.method, p.size) and METHODS[p.method].family != "metric"
        }
        cells = []
        for what, most in (("error", math.inf), ("fit_s", CHEAP), ("bytes", TINY)):
            kept = {place: line["error"] for place, line in known.items() if line[what] <= most}
            method, size = min(kept, key=kept.__getitem__) if kept else ("", 0)
            size_said = f", {size:,}" if method in COMPARED else ""
            cells.append(f"{name_of(method, size)}{size_said}: {shown(name, [kept[method, size]])}" if kept else "")
        rows.append([name, *cells])
    return table(["", "of all", f"within {CHEAP:.0f} s", f"model of {TINY // 1000} kB at most"], rows)


PARTS: dict[str, Callable[[Lines], str]] = {
    "state": state, "choices": choices, "verdicts": verdicts, **{f"errors-{size}": errors(size) for size in SIZES},
    "prices": prices, "widths": width_table, "metrics": metric_table, "rows": many, "best": best,
}  # fmt: skip


def fill(text: str, lines: Lines) -> str:
    """The page with every part made anew."""

    def made(found: re.Match[str]) -> str:
        return f"<!-- made: {found[1]} -->\n{PARTS[found[1]](lines)}\n<!-- end -->"

    return re.sub(r"<!-- made: ([\w-]+) -->\n.*?<!-- end -->", made, text, flags=re.DOTALL)


def agreement(lines: Lines, others: Lines) -> str:
    """How far the errors of the points that both have are from each other."""
    both = [key for key in lines.by_key if all("error" in found.by_key.get(key, {}) for found in (lines, others))]
    ratios = {key: lines.by_key[key]["error"] / others.by_key[key]["error"] for key in both}
    if not both:
        return "no point is in both"
    far = max(ratios, key=lambda key: max(ratios[key], 1 / ratios[key]))
    return f"{len(both)} points are in both; the largest ratio of their errors is {ratios[far]:.3f}, of {far}"


def main(arguments: list[str] | None = None) -> int:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--lines", type=Path, help="default: study.jsonl beside this file, or that of the small study")
    ask.add_argument("--out", type=Path, help="folder of another page")
    ask.add_argument("--small", action="store_true")
    args = ask.parse_args(arguments)
    lines = Lines(read(args.lines or (SMALL / "study.jsonl" if args.small else LINES)))
    if not lines.points:
        print("no lines: run scripts/bench/study.py first", file=sys.stderr)
        return 1
    folder = args.out or (SMALL if args.small else None)
    page = folder / PAGE.name if folder else PAGE
    page.write_text(fill(PAGE.read_text(), lines))
    print(page, file=sys.stderr)
    if folder:
        print(agreement(lines, Lines(read(LINES))), file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
