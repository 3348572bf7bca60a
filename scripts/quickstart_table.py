"""The closing table of quickstart.sh, out of the notes that scripts/measured.py left in one folder."""

import json
import sys
from pathlib import Path
from typing import Any


def table(notes: dict[str, Any]) -> list[tuple[str, str]]:
    """(what, figure) of every line; `notes` holds data, test, train, score, evaluate, linear."""
    data, test = notes["data"]["result"], notes["test"]["result"]
    train, score, evaluate = notes["train"], notes["score"], notes["evaluate"]
    size = data["rows"] * data["features"] * 4
    peak = max(note["peak_bytes"] for note in (train, score, evaluate))
    return [
        ("rows x features", f"{data['rows']:,} x {data['features']} ({size / 1e9:.2f} GB of float32)"),
        ("test rows", f"{test['rows']:,}"),
        ("accuracy, Bayes rate", f"{100 * (1 - data['bayes_error']):.2f} %"),
        ("accuracy, dkernel", f"{100 * evaluate['result']['accuracy']:.2f} %"),
        ("accuracy, linear", f"{100 * notes['linear']['result']['accuracy']:.2f} %"),
        ("training", _pace(data["rows"], train)),
        ("scoring", _pace(test["rows"], score)),
        ("peak memory, training", f"{train['peak_bytes'] / 2**20:,.0f} MiB, all processes"),
        ("peak memory, all commands", f"{peak / 2**20:,.0f} MiB, all processes"),
    ]


def _pace(rows: int, note: dict[str, Any]) -> str:
    return f"{rows / note['seconds']:,.0f} rows/s ({note['seconds']:.1f} s with start and end of the processes)"


def main(arguments: list[str]) -> int:
    folder = Path(arguments[0])
    names = ("data", "test", "train", "score", "evaluate", "linear")
    lines = table({name: json.loads((folder / f"{name}.json").read_text()) for name in names})
    width = max(len(what) for what, _ in lines)
    for what, figure in lines:
        print(f"  {what:<{width}}  {figure}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
