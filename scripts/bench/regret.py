"""The error of the plain command beside the best way of commit 82a4d3dd, which `regret.json` keeps.

It has the error of each way by name, its standard error and its seeds; LightGBM takes no chance, so has one. A set that
it has not is compared with the best way by name of the folder. The regret of a set is the error of the plain command
over that of the best way there, both means over seeds on the same test rows; half a wrong row is added to both, since a
set may have none. Its standard error is that of the paired difference over the rows where a folder has them, else that
of two independent errors.

    python scripts/bench/plain.py --regret --seeds 2 --folder now            # unpaired
    python scripts/bench/plain.py --regret kept --seeds 2 --folder now       # paired with the fits of the folder kept
    python scripts/bench/regret.py kept                                      # write regret.json from them

The rules of the choice are chosen on the kept sets whose names begin with a to m, so both halves and the others have a
line of their own.
"""

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

TABLE = Path(__file__).with_name("regret.json")
TREES = ("LightGBM 300 x 63", "LightGBM 500 x 255")
NEAR = 1.05  # a regret below this is none
SURE = 2.0  # standard errors


@dataclass(frozen=True)
class Errors:
    """What a way's test rows add to its error, means over its seeds."""

    rows: NDArray[np.float64]
    seeds: int
    regress: bool

    @property
    def mean(self) -> float:
        """RMSE over the deviation of the labels, or percent of wrong labels."""
        return float(np.sqrt(self.rows.mean()) if self.regress else 100 * self.rows.mean())

    def spread(self, parts: NDArray[np.float64]) -> float:
        """The standard error of an error near this one whose rows have these parts."""
        share = float(parts.std() / len(parts) ** 0.5)
        return share / max(2 * self.mean, 1e-300) if self.regress else 100 * share

    @property
    def standard_error(self) -> float:
        """Of the mean, over the rows."""
        return self.spread(self.rows)


def read_fits(folder: Path) -> dict[str, dict[str, Errors]]:
    """Set -> way -> its errors, of all fits that a folder holds."""
    found: dict[str, dict[str, list[tuple[NDArray[np.float64], bool]]]] = {}
    for path in sorted(each for each in folder.glob("*.npy") if each.with_suffix(".json").exists()):
        line = json.loads(path.with_suffix(".json").read_text())
        of_set = found.setdefault(line["set"], {})
        of_set.setdefault(line["way"], []).append((np.load(path), line["regress"]))
    return {
        name: {way: Errors(np.mean([rows for rows, _ in of], axis=0), len(of), of[0][1]) for way, of in ways.items()}
        for name, ways in found.items()
    }


def best_way(ways: dict[str, float]) -> str:
    """The way by name with the least error."""
    return min((way for way in ways if way != "command" and way not in TREES), key=ways.__getitem__)


def difference_error(found: Errors, kept: Errors | None, spread: float) -> float:
    """The standard error of a difference to a kept error with this spread, paired where its rows are there."""
    if kept is not None and kept.rows.shape == found.rows.shape:
        return kept.spread(found.rows - kept.rows)
    return float(np.hypot(found.standard_error, spread))


def compare(now: Path, kept: Path | None, table: dict[str, dict[str, list[float]]]) -> list[dict[str, Any]]:
    """A row for each set whose command the folder has fitted, and of which a way by name is known."""
    fits, old = read_fits(now), read_fits(kept) if kept else {}
    rows: list[dict[str, Any]] = []
    for name in sorted(fits, key=str.lower):
        plain, own = fits[name].get("command"), {way: of.mean for way, of in fits[name].items()}
        known = table.get(name) or {way: [of.mean, of.standard_error] for way, of in fits[name].items()}
        if plain is None or not known.keys() - {"command", *TREES}:
            continue
        errors, ways = {way: of[0] for way, of in known.items()}, old.get(name, {}) if name in table else fits[name]
        best, half_row = best_way(errors), 0.0 if plain.regress else 50 / len(plain.rows)
        half = "others" if name not in table else "a to m" if name[0].lower() <= "m" else "n to z"
        row = {"set": name, "of": half, "seeds": plain.seeds, "command": plain.mean}
        row |= {"best": best, "its error": errors[best]}
        row["regret"] = (plain.mean + half_row) / (errors[best] + half_row)
        spread = difference_error(plain, ways.get(best), known[best][1])
        row["se"] = spread / (errors[best] + half_row)
        if own.keys() - {"command", *TREES}:
            row["own best"] = best_way(own)
            row["own regret"] = (plain.mean + half_row) / (own[row["own best"]] + half_row)
        for trees in (trees for trees in TREES if trees in errors):
            spread = difference_error(plain, ways.get(trees), known[trees][1])
            row |= {trees: errors[trees], f"- {trees[9:]}": plain.mean - errors[trees], f"se {trees[9:]}": spread}
        rows.append(row)
    return rows


def summarize(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The geometric mean of the regrets, and how many are clear, of both halves, the other sets, and all."""
    lines = []
    for half in ("a to m", "n to z", "others", "all"):
        of = [row for row in rows if half in (row["of"], "all")]
        if not of:
            continue
        clear = [row for row in of if row["regret"] > max(NEAR, 1 + SURE * row["se"])]
        last_trees = TREES[-1][9:]
        behind = [row for row in of if row.get(f"- {last_trees}", 0) > SURE * row.get(f"se {last_trees}", np.inf)]
        mean = float(np.exp(np.mean([np.log(row["regret"]) for row in of])))
        lines.append({"set": half, "sets": len(of), "regret": mean, "beyond 1.05": len(clear)})
        lines[-1][f"behind {TREES[-1]}"] = len(behind)
    return lines


def main(arguments: list[str] | None = None) -> int:
    """Write the table of a folder of fits."""
    ask = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ask.add_argument("folder", type=Path)
    folder = ask.parse_args(arguments).folder
    commands = [json.loads(path.read_text()) for path in folder.glob("*-command-?.json")]
    [commit] = {line["commit"] for line in commands}
    sets = {
        name: {
            way: [float(f"{of.mean:.5g}"), float(f"{of.standard_error:.3g}"), of.seeds]
            for way, of in sorted(ways.items())
        }
        for name, ways in sorted(read_fits(folder).items(), key=lambda each: each[0].lower())
    }
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(ways)}" for name, ways in sets.items())
    TABLE.write_text(f'{{"commit": "{commit}", "sets": {{\n{lines}\n}}}}\n')
    return 0


if __name__ == "__main__":
    sys.exit(main())
