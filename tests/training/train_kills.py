"""Kill a fit at every step, then run it again: a script of test_checkpoint_kills.py.

    python -m tests.training.train_kills FOLDER [STEP ...]     prints one JSON object

The steps are: the beginning of each stage and of each of the 20 rounds, the middle of each round, and each call of the
operating system that changes what is on the disk. A child process is killed (SIGKILL) before the first of them, then
before the second, until one run ends by itself; with STEPs only before those, of "NAME-N" the N-th of that name. The
next run must give the same bytes, and every piece that a round computes is counted on disk.
"""

import json
import os
import signal
import sys
from collections import Counter
from pathlib import Path

from dkernel.solvers import full_batch, objective, sgd
from dkernel.training.checkpoint import EVERY, FolderJournal
from tests.training.fits import ROUNDS, digest, fit

STAGES = 3  # survey, choose, prepare: a file each


def run(folder: Path, kill_before: int | str, log: Path) -> tuple[int, list[str]]:
    """The fit in a child process that dies before a step, by its number or name; its exit status, and its steps."""
    child = os.fork()
    if child:
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        return status, (folder / "steps").read_text().split()
    steps = os.open(folder / "steps", os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_TRUNC)
    pieces = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    seen: Counter[str] = Counter()
    where = {"round": -1}

    def step(name):
        seen[name] += 1
        if kill_before in (sum(seen.values()), f"{name}-{seen[name]}"):
            os.kill(os.getpid(), signal.SIGKILL)
        os.write(steps, f"{name}-{seen[name]}\n".encode())

    def before(owner, attribute, name):
        function = getattr(owner, attribute)

        def stepped(*args, **kwargs):
            step(name(*args))
            return function(*args, **kwargs)

        setattr(owner, attribute, stepped)

    for name in ("replace", "fsync", "unlink"):
        before(os, name, lambda *_, name=name: name)
    before(FolderJournal, "step", lambda _, name, *__: name)
    before(FolderJournal, "finish", lambda *_: "finish")
    a_round, gradient_step, plan = sgd.PSGDSolver._round, objective.Gradient.step, full_batch.Polish.plan

    def in_round(self, state):
        step("round")
        where["round"] = state.done
        return a_round(self, state)

    def of_polish(self, state):
        reading = plan(self, state)
        if reading is not None and not self._is_over(state):
            step("reading")
            where["round"] = ROUNDS + state.state.passes
        return reading

    def counted(self, block, piece, broadcast):
        if where["round"] >= 0:
            step("piece")
            os.write(pieces, f"{where['round']} {piece.number}\n".encode())
        return gradient_step(self, block, piece, broadcast)

    sgd.PSGDSolver._round, objective.Gradient.step, full_batch.Polish.plan = in_round, counted, of_polish
    result = fit(folder / "checkpoint")
    digest(result, folder)
    os._exit(0)


def pieces_of(log: Path) -> Counter[tuple[int, int]]:
    """(round, piece) -> how often it was computed."""
    lines = log.read_text().splitlines() if log.exists() else []
    return Counter(tuple(map(int, line.split())) for line in lines)


def one(folder: Path, kill_before: int | str, complete: str) -> dict:
    """Kill, run again, and what came of it."""
    folder.mkdir()
    log = folder / "log"
    status, steps = run(folder, kill_before, log)
    first = pieces_of(log)
    if status == 0:
        return {"status": status}
    again, _ = run(folder, 0, log)
    model = (folder / "model.safetensors").read_bytes()
    left = sorted(p.name for p in (folder / "checkpoint").iterdir())
    # A step is written down right before it is done: the last one was done, the kill came before the next.
    files = max(0, sum(name.startswith("replace") for name in steps) - STAGES)
    saved = EVERY * min(files, ROUNDS // EVERY) + max(0, files - ROUNDS // EVERY - 1)  # a file says that rounds ended
    lost = {place for place in first if place[0] >= saved}
    twice = {place for place, n in pieces_of(log).items() if n > 1}
    return {
        "status": status,
        "again": again,
        "same": model == complete,
        "left": left,
        "exact": twice == lost and max(pieces_of(log).values()) <= 2,
        "rounds_again": len({turn for turn, _ in twice}),
        "pieces": len(pieces_of(log)),
    }


def main(folder: Path, names: list[str]) -> dict:
    reference = folder / "reference"
    reference.mkdir()
    status, steps = run(reference, 0, reference / "log")
    assert status == 0
    complete = (reference / "model.safetensors").read_bytes()
    kills: list[int | str] = list(names) or list(range(1, len(steps) + 1))
    found = {str(kill): one(folder / str(kill), kill, complete) for kill in kills}
    return {"steps": steps, "pieces": len(pieces_of(reference / "log")), "kills": found}


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), sys.argv[2:])))
