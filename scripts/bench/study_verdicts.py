"""What the lines say of the hypotheses of STUDY.md: "holds", "refuted" or "open", with the figures that decide it.

A verdict needs the points that its hypothesis names: on four sets at least, where it is a mean over sets.
"""

from collections.abc import Callable, Mapping
from itertools import product
from statistics import median

from study_lines import Lines, components_for, geometric, pairs
from study_points import BELOW, MADE, MAPS, METHODS, SETS, SIZES, WIDTH_SETS, WIDTHS

Verdict = tuple[str, str]
ENOUGH_SETS = 4
BETTER = 0.97  # a mean ratio below it is a gain
SECONDS, LEAST_ROWS = 100.0, 1_000_000
TOP = SIZES[-1]


def _said(ratios: Mapping[str, float]) -> str:
    sets = f"{len(ratios)} set{'s' * (len(ratios) > 1)}"
    return f"{geometric(ratios.values()):.2f} (mean of {sets}, median {median(ratios.values()):.2f})"


def _ends(factors: Mapping[str, float]) -> list[str]:
    """Sets whose curve ends before it reaches the error."""
    return [name for name, factor in factors.items() if factor > 0.999 * TOP / BELOW]


def narrowing(lines: Lines) -> Verdict:
    """1. Landmarks and frequencies, and the width of the kernel."""
    iid, uniform = "Fourier, iid", "Nystrom, uniform"
    ratios = lines.ratios(iid, uniform, BELOW)
    if len(ratios) < ENOUGH_SETS:
        return "open", f"{len(ratios)} of {len(SETS)} sets were run."
    said = [f"At 1,024 components independent frequencies have {_said(ratios)} times the error of uniform landmarks."]
    factors = {}
    for name in ratios:
        curve = [(size, lines.mean(name, iid, size)) for size in SIZES]
        if all(error is not None for _, error in curve):
            factors[name] = components_for(lines.mean(name, uniform, BELOW), curve) / BELOW
    if factors:
        ends = f", and more on {', '.join(_ends(factors))}" if _ends(factors) else ""
        said.append(f"They need {_said(factors)} times the components for that error{ends}.")
    refuted, missing = geometric(ratios.values()) < 1.03, False
    for name in WIDTH_SETS:
        gaps = [lines.ratios(iid, uniform, BELOW, width=width).get(name) for width in (WIDTHS[0], 1.0, *WIDTHS[1:])]
        far = [(lines.mean(name, map, TOP, width=WIDTHS[-1]), lines.mean(name, map, TOP)) for map in (iid, uniform)]
        if None in gaps or any(None in pair for pair in far):
            missing = True
            continue
        refuted |= gaps[2] <= gaps[0] or any(there <= 1.1 * here for there, here in far)
        said.append(f"On {name} the ratio is {', '.join(f'{gap:.2f}' for gap in gaps)} at 1/4, 1, 4 and 16 times the "
                    f"gamma; at 16 times, 4,096 components have {' and '.join(f'{a / b:.1f}' for a, b in far)} times "
                    "the error at the chosen one (frequencies, landmarks).")  # fmt: skip
    if missing:
        said.append("Not all widths were run.")
    return "refuted" if refuted else "open" if missing else "holds", " ".join(said)


def landmarks(lines: Lines) -> Verdict:
    """2. Rules that choose landmarks."""
    rules, said, last = [m for m in MAPS if METHODS[m].family == "landmarks"][1:], [], {}
    for size in SIZES:
        last = {rule: lines.ratios(rule, "Nystrom, uniform", size) for rule in rules}
        if all(len(ratios) >= ENOUGH_SETS for ratios in last.values()):
            said.append(f"{size:,} landmarks: " + ", ".join(
                f"{rule.split(', ')[1]} {geometric(ratios.values()):.3f}" for rule, ratios in last.items()
            ) + f" ({min(map(len, last.values()))} sets).")  # fmt: skip
        elif size == TOP:
            return "open", " ".join(
                ["Mean ratios to uniform landmarks.", *said, f"{TOP:,} landmarks were run on too few sets."]
            )
    refuted = any(geometric(ratios.values()) < BETTER for ratios in last.values())
    return "refuted" if refuted else "holds", " ".join(["Mean ratios to uniform landmarks.", *said])


def frequencies(lines: Lines) -> Verdict:
    """3. Frequencies that are not independent."""
    widest = max(SETS, key=lambda name: SETS[name].inputs)
    said, better, quicker, missing = [], False, [], False
    for map in ("Fourier, orthogonal", "Fourier, structured"):
        errors = lines.ratios(map, "Fourier, iid", BELOW)
        times = lines.ratios(map, "Fourier, iid", BELOW, "predict_s").get(widest)
        if len(errors) < ENOUGH_SETS or times is None:
            missing = True
            continue
        better |= geometric(errors.values()) < BETTER
        quicker.append(times < 0.95)
        said.append(f"{map.split(', ')[1].capitalize()} ones have {geometric(errors.values()):.3f} times the error of "
                    f"independent ones at 1,024 components ({len(errors)} sets), and {times:.2f} times their seconds "
                    f"to predict on {widest}, of {SETS[widest].inputs} features.")  # fmt: skip
    if missing:
        return "open", " ".join([*said, "Too few sets were run, or the one with the most features was not."])
    return "refuted" if better or not any(quicker) else "holds", " ".join(said)


def kernel_errors(lines: Lines) -> Verdict:
    """4. Order of the maps by the error of the kernel, and by the test error."""
    shares: dict[str, list[bool]] = {"frequencies": [], "landmarks": [], "one of each": []}
    sets = set()
    for name, size in product(SETS, SIZES):
        known = [
            (METHODS[map].family, lines.mean(name, map, size, "kernel_error"), lines.mean(name, map, size))
            for map in MAPS
        ]
        for (family, kernel, test), (other, kernel2, test2) in pairs(
            [entry for entry in known if entry[1] is not None]
        ):
            if test != test2:
                shares[family if family == other else "one of each"].append((kernel < kernel2) == (test < test2))
                sets.add(name)
    if len(sets) < ENOUGH_SETS:
        return "open", f"{len(sets)} of {len(SETS)} sets were run."
    within = shares["frequencies"] + shares["landmarks"]
    said = ", ".join(
        f"{name} {100 * sum(those) / len(those):.0f} % of {len(those)}" for name, those in shares.items() if those
    )
    share = sum(within) / len(within)
    return "refuted" if share >= 0.75 else "holds", (
        f"Pairs of maps whose smaller error of the kernel is the smaller test error: {said}; within a family "
        f"{100 * share:.0f} %. Half would be chance."
    )


def rows_grow(lines: Lines) -> Verdict:
    """5. Components beside grids and cells at a fixed time."""
    found = {}
    for name in MADE:
        for rows in lines.rows(name):
            for family, methods in (("components", MAPS), ("grids or cells", ("grids", "cells"))):
                errors = [line["error"] for point, line in lines.points.items()
                          if (point.set, point.rows, point.width) == (name, rows, 1.0) and point.method in methods
                          and line["fit_s"] <= SECONDS]  # fmt: skip
                if errors:
                    found[name, rows, family] = min(errors)
    both = [rows for rows in lines.rows(MADE[0]) if all((name, rows, family) in found
            for name in MADE for family in ("components", "grids or cells"))]  # fmt: skip
    said = "; ".join(
        f"{name}, {rows:,} rows: {found[name, rows, 'components']:.3f} and {found[name, rows, 'grids or cells']:.3f}"
        for name in MADE for rows in both if rows >= min(LEAST_ROWS, max(both))
    )  # fmt: skip
    said = (
        f"Best error within {SECONDS:.0f} s, of components and of grids or cells: {said}."
        if both
        else "Nothing was run."
    )
    if not both or max(both) < LEAST_ROWS:
        return "open", said + f" No set of {LEAST_ROWS:,} rows was run with both."
    most = max(both)
    wins = {name: found[name, most, "grids or cells"] < found[name, most, "components"] for name in MADE}
    return "holds" if wins["rough"] and not wins["smooth"] else "refuted", said


def metrics(lines: Lines) -> Verdict:
    """6. Components that a learned metric is worth."""
    factors = metric_factors(lines)
    if len(factors) < ENOUGH_SETS:
        return "open", f"{len(factors)} of {len(SETS)} sets were run with {TOP:,} landmarks."
    factor, ends = geometric(factors.values()), _ends(factors)
    each = ", ".join(f"{name} {f:.2f}" for name, f in factors.items())
    said = f"The factor is {factor:.2f} (mean of {len(factors)} sets: {each})."
    more = f" On {', '.join(ends)} {TOP:,} landmarks without a metric are not enough." if ends else ""
    return "refuted" if factor < 1.1 else "holds", said + more


def metric_factors(lines: Lines) -> dict[str, float]:
    """Set -> components without a metric that reach the error of 1,024 with one, over 1,024; 1/4 to 4."""
    found = {}
    for name in SETS:
        learned = lines.mean(name, "metric on", BELOW)
        curve = [(size, lines.mean(name, "metric off", size)) for size in SIZES]
        if learned is not None and all(error is not None for _, error in curve):
            found[name] = components_for(learned, curve) / BELOW
    return found


VERDICTS: tuple[Callable[[Lines], Verdict], ...] = (
    narrowing, landmarks, frequencies, kernel_errors, rows_grow, metrics,
)  # fmt: skip
