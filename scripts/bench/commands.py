"""What the benchmarks of whole commands share: made data on disk, and `dkernel train` run as a user runs it."""

import json
import shutil
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

from report import ROOT

sys.path.insert(0, str(ROOT / "scripts"))

import make_data
import measured

__all__ = ["BYTES_A_NUMBER", "make_files", "phases_of", "train"]

# Of a number on disk; a text of it has up to so many characters, and a comma.
BYTES_A_NUMBER = {"npy": 4.0, "parquet": 4.0, "csv": 14.0}
ENDINGS = {"npy": "/part-*.npy", "parquet": "/part-*.parquet", "csv": "/part-*.csv"}


def make_files(place: Path, form: str, rows: int, columns: int = 28, first_row: int = 0, processes: int = 2) -> Path:
    """A folder of made rows (scripts/make_data.py), written chunk by chunk; refused where the disk has no room."""
    needed = rows * (columns + 1) * BYTES_A_NUMBER[form]
    out = place / f"{form}-{rows}-{first_row}"
    place.mkdir(parents=True, exist_ok=True)
    there = (out / make_data.LAW_FILE).exists()
    if not there and shutil.disk_usage(place).free < 1.1 * needed + 2**30:
        free = shutil.disk_usage(place).free / 2**30
        print(f"{place} has {free:.1f} GiB free; {rows:,} rows as {form} take {needed / 2**30:.1f}", file=sys.stderr)
        raise SystemExit(1)
    wanted = ["--rows", str(rows), "--features", str(columns), "--first-row", str(first_row), "--out", str(out)]
    with redirect_stdout(StringIO()):
        status = make_data.main([*wanted, "--format", form, "--processes", str(processes)])
    if status:
        raise SystemExit(status)
    return out


def train(data: Path, out: Path, options: Sequence[str], columns: int = 28, interval: float = 0.2) -> dict[str, Any]:
    """Seconds of the command, the most memory of all its processes, and its run record.

    To look for the memory every 0.2 s takes some 3 % of two cores: where nobody asks for it, `interval` is longer.
    """
    label = str(columns) if any(data.glob("*.npy")) else "label"
    command = [sys.executable, "-Pm", "dkernel", "train", str(data), "--label", label, "--task", "classify"]
    out.unlink(missing_ok=True)
    note = measured.measure([*command, "--out", str(out), "--quiet", "--json", *options], interval=interval)
    if note["status"]:
        raise SystemExit(f"{' '.join(map(str, note['command']))}: exit code {note['status']}")
    record = json.loads(Path(f"{out}.run.json").read_text())
    return {"seconds": note["seconds"], "peak_bytes": note["peak_bytes"], "record": record}


def phases_of(record: dict[str, Any]) -> dict[str, float]:
    """Seconds of survey, of all passes, and of what lies between: setup."""
    found = {"survey": 0.0, "setup": 0.0, "pass": 0.0}
    for name, seconds in record["phases"].items():
        kind = name.split()[0]
        found[kind if kind in found else "setup"] += seconds
    return found
