"""Tables and verdicts of the study from its lines: what stands between the marks of STUDY.md.

The words around the tables are the page's own. With --small the page of the small study is written beside its lines,
and what its points have in common with the lines of the repository is compared.

    python scripts/bench/study_page.py
    python scripts/bench/study_page.py --small
"""

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from report import ROOT, markdown
from study import LINES, SMALL, read
from study_lines import Lines
from study_points import BELOW, COMPARED, MANY, SETS, SIZES, TREES, stages, within
from study_verdicts import VERDICTS

PAGE = ROOT / "scripts" / "bench" / "STUDY.md"
PRICED = "covtype"
MANY_ROWS = 500_000
OTHERS = [("linear", 0), ("exact", 0), *(("LightGBM", trees) for trees in TREES)]


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of Markdown, without the rows that have nothing but a name."""
    lines = [row for row in rows if any(row[1:])]
    if not lines:
        return "Not run yet."
    return markdown(heads, lines)


def shown(name: str, figures: Sequence[float]) -> str:
    """An error: the mean of the seeds."""
    if not figures:
        return ""
    mean = sum(figures) / len(figures)
    digits = 3 if SETS[name].regress else 2 if mean < 10 else 1
    return f"{mean:.{digits}f}"


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
    hours = sum(line["fit_s"] for line in lines.points.values()) / 3600
    dates = sorted({line["date"] for line in lines.points.values()})
    verdicts = [verdict(lines)[0] for verdict in VERDICTS]
    when = " to ".join(sorted({dates[0], dates[-1]}))
    said = [
        f"{len(known):,} of {len(all_points):,} points have been run ({when}); the fits took {hours:.2f} hours of one "
        "core.",
        f"{len(verdicts) - verdicts.count('open')} of {len(verdicts)} hypotheses have a verdict.",
    ]
    if failed:
        said.append("Failed: " + "; ".join(f"{key} ({lines.by_key[key]['failed']})" for key in failed) + ".")
    return " ".join(said)


def verdicts(lines: Lines) -> str:
    found = [verdict(lines) for verdict in VERDICTS]
    return "\n".join(f"{i}. **{word.capitalize()}.** {said}" for i, (word, said) in enumerate(found, 1))


def errors(lines: Lines) -> str:
    """The errors of the larger sizes, one after the other, and of the machines beside the methods."""
    asked = [(method, SIZES[1:]) for method in COMPARED] + [(method, (size,)) for method, size in OTHERS]
    rows = []
    for method, sizes in asked:
        cells = [[shown(name, lines.figures(name, method, size)) for size in sizes] for name in SETS]
        rows.append([name_of(method, sizes[0]), *(", ".join(filter(None, cell)) for cell in cells)])
    return table(["", *heads()], rows)


def prices(lines: Lines) -> str:
    """What 1,024 cost on the set with the most features."""
    rows = []
    for method, size in [*((method, BELOW) for method in COMPARED), *OTHERS]:
        means = [lines.mean(PRICED, method, size, what) for what in ("fit_s", "predict_s", "bytes")]
        if None not in means:
            fit, predict, nbytes = means
            rows.append([name_of(method, size), f"{fit:.1f}", f"{predict:.1f}", f"{nbytes / 2**20:.2f}"])
    return table(["", "fit, s", "predict a million, s", "model, MiB"], rows)


def many(lines: Lines) -> str:
    """Error and seconds of one core at the sizes of many rows, of the methods of ten million rows."""
    places = [(name, n) for name in SETS for n in lines.rows(name) if n >= MANY_ROWS]
    asked = [(method, size) for size in SIZES[1:] for method in MANY]
    asked += [entry for entry in OTHERS if entry[0] != "exact"]
    rows = []
    for method, size in asked:
        cells = []
        for name, n in places:
            error, seconds = (lines.mean(name, method, size, what, rows=n) for what in ("error", "fit_s"))
            cells.append("" if error is None else f"{shown(name, [error])}, {seconds:.0f} s")
        rows.append([name_of(method, size) + (f", {size:,}" if method in COMPARED else ""), *cells])
    return table(["", *(f"{name}, {n:,}" for name, n in places)], rows)


PARTS: dict[str, Callable[[Lines], str]] = {
    "state": state, "verdicts": verdicts, "errors": errors, "prices": prices, "rows": many,
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
