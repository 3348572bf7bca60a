"""Run a command and note how long it took and how much memory its whole process tree had at most.

    python scripts/measured.py NOTE.json COMMAND...

The command's standard error passes through; its standard output, one JSON object, goes into the note as `result`.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

from dkernel.cli.memory_usage import PeakMemory


def measure(command: list[str], interval: float = 0.1) -> dict[str, object]:
    """The note of one command: command, status, seconds, peak_bytes and what it printed as JSON."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    try:
        with PeakMemory(interval, process.pid) as memory:
            printed, _ = process.communicate()
    except KeyboardInterrupt:
        # The terminal sent it to the command as well: let that end in its own way first.
        process.wait()
        raise
    seconds = time.perf_counter() - start
    try:
        result = json.loads(printed)
    except ValueError:
        result = {"text": printed}
    note = {"command": command, "status": process.returncode, "seconds": round(seconds, 2)}
    return {**note, "peak_bytes": memory.peak, "result": result}


def main(arguments: list[str]) -> int:
    if len(arguments) < 2:
        print("usage: measured.py NOTE.json COMMAND...", file=sys.stderr)
        return 2
    note = measure(arguments[1:])
    Path(arguments[0]).write_text(json.dumps(note, indent=1) + "\n")
    status = note["status"]
    return status if isinstance(status, int) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
