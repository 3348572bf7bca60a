"""A fit of dkernel, xgboost.dask, lightgbm.dask or dask-ml's Incremental, as their own pages show it: the client.

    python promised_fits.py SYSTEM ADDRESS PLACE DATA

PLACE/notes gets an empty file for each part of the rows that is read and for each step, with the number of the process
that did it in its name; PLACE/result.json the accuracy on other rows and the hash of what was learned.
"""

import argparse
import hashlib
import json
import os
import time
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
from distributed import Client

COLUMNS = 100
STEPS = 40  # rounds of boosting; dkernel has 32 rounds, and Incremental one for each part
PAUSE = 0.05  # seconds that a step waits, so that a process can be ended in the middle
WAIT = 60  # seconds for which xgboost and lightgbm wait for a worker, where they let one say so
PARTS, ROWS = 16, 4000
LARGE_ROWS = 20_000  # of a part of data that are larger than memory


def note(place: str, name: str) -> None:
    """Leave a file that names a step and the process that comes to it."""
    (Path(place) / "notes" / f"{name}.{os.getpid()}.{time.monotonic_ns()}").touch()


def rows(number: int, n: int) -> np.ndarray:
    """Rows of a law of a line with noise, the label in the last column."""
    found = np.empty((n, COLUMNS + 1), np.float32)
    rng = np.random.default_rng(number)
    rng.standard_normal(dtype=np.float32, out=(X := np.empty((n, COLUMNS), np.float32)))
    found[:, :COLUMNS] = X
    found[:, COLUMNS] = X @ np.linspace(-1, 1, COLUMNS, dtype=np.float32) + rng.standard_normal(n) > 0
    return found


def part(place: str, numbers: list[int], sizes: list[int], missing: bool, block_id: tuple[int, int]) -> np.ndarray:
    """A part of the data; runs on a worker."""
    number = numbers[block_id[0]]
    note(place, f"read-{number}")
    found = rows(number, sizes[block_id[0]])
    if missing and number == PARTS // 3:
        found[:, :COLUMNS] = np.nan
    return found


def sizes_of(name: str) -> list[int]:
    """Rows of each part of the data of this name; that of large data is their number of parts."""
    if name == "empty":
        return [0, *[ROWS] * (PARTS // 2), 0, *[ROWS] * (PARTS // 2), 0]
    return [LARGE_ROWS] * int(name) if name.isdecimal() else [ROWS] * PARTS


def data(place: str, name: str) -> tuple[Any, Any]:
    """Features and labels as Dask arrays, which are read where they are needed."""
    sizes = sizes_of(name)
    numbers = list(accumulate((n > 0 for n in sizes[:-1]), initial=0))  # parts without rows change no other
    read = partial(part, place, numbers, sizes, name == "missing")
    chunks = tuple(sizes), (COLUMNS + 1,)
    table = da.map_blocks(read, chunks=chunks, dtype=np.float32, meta=np.empty((0, 0), np.float32))
    return table[:, :COLUMNS], table[:, COLUMNS].astype(np.int32)


def dkernel(place: str, X: Any, y: Any, client: Client) -> tuple[Any, bytes]:  # noqa: ARG001
    """An estimator with a checkpoint, which the same fit continues from."""
    from dkernel import KernelClassifier, save

    def tell(line: dict[str, Any]) -> None:
        if "round" in line:
            note(place, f"step-{line['round']}")
            time.sleep(PAUSE)

    folder = Path(place) / "checkpoint"
    machine = KernelClassifier(
        kernel="linear",
        n_components=2 * COLUMNS,
        local="none",
        passes=1,
        random_state=0,
        checkpoint=folder,
        callbacks=[tell],
    )
    machine.fit(X, y)
    save(machine, Path(place) / "model")
    return machine.predict, (Path(place) / "model").read_bytes()


def xgboost(place: str, X: Any, y: Any, client: Client) -> tuple[Any, bytes]:
    """`xgboost.dask.train` with its own checkpoints, which the rest of the rounds goes on from.

    The quantized matrix is the one that its pages advise against a lack of memory. Its waits have no limit by default.
    """
    import xgboost
    from xgboost import dask as dxgb
    from xgboost.collective import Config

    class Tell(xgboost.callback.TrainingCallback):
        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:  # noqa: ARG002
            note(place, f"step-{epoch + 1}")
            time.sleep(PAUSE)
            return False

    folder = Path(place) / "checkpoint"
    folder.mkdir(exist_ok=True)
    kept = sorted(folder.glob("*.ubj"), key=lambda file: int(file.stem.split("_")[-1]))
    before = xgboost.Booster(model_file=kept[-1]) if kept else None
    rounds = STEPS - (before.num_boosted_rounds() if before else 0)
    saving = xgboost.callback.TrainingCheckPoint(folder, name="model", interval=4)
    matrix = dxgb.DaskQuantileDMatrix(client, X, y)
    limits = Config(timeout=WAIT, tracker_timeout=WAIT)
    settings = {"objective": "binary:logistic", "tree_method": "hist", "max_depth": 4, "seed": 0}
    found = dxgb.train(client, settings, matrix, rounds, xgb_model=before, callbacks=[saving, Tell()], coll_cfg=limits)
    model = found["booster"]
    return lambda Z: model.inplace_predict(Z) > 0.5, bytes(model.save_raw("ubj"))


def lightgbm(place: str, X: Any, y: Any, client: Client) -> tuple[Any, bytes]:
    """`DaskLGBMClassifier`, with which no fit goes on from another; by default it waits for two hours."""
    import lightgbm

    def tell(env: Any) -> None:
        note(place, f"step-{env.iteration + 1}")
        time.sleep(PAUSE)

    machine = lightgbm.DaskLGBMClassifier(
        n_estimators=STEPS, num_leaves=15, random_state=0, deterministic=True, force_row_wise=True, verbose=-1,
        time_out=WAIT // 60, client=client,
    )  # fmt: skip
    machine.fit(X, y, callbacks=[tell])
    local = machine.to_local()
    return local.predict, local.booster_.model_to_string().encode()


def incremental(place: str, X: Any, y: Any, client: Client) -> tuple[Any, bytes]:  # noqa: ARG001
    """`dask_ml.wrappers.Incremental` over a linear model."""
    from dask_ml.wrappers import Incremental
    from sklearn.linear_model import SGDClassifier

    class Told(SGDClassifier):
        def partial_fit(self, *args: Any, **kwargs: Any) -> Any:
            self.told = getattr(self, "told", 0) + 1
            note(place, f"step-{self.told}")
            time.sleep(PAUSE)
            return super().partial_fit(*args, **kwargs)

    machine = Incremental(Told(random_state=0), shuffle_blocks=False)
    machine.fit(X, y, classes=[0, 1])
    found = machine.estimator_
    return found.predict, found.coef_.tobytes() + found.intercept_.tobytes()


SYSTEMS = {"dkernel": dkernel, "xgboost.dask": xgboost, "lightgbm.dask": lightgbm, "dask-ml": incremental}


def main(system: str, address: str, place: str, name: str) -> None:
    """Fit, and write what came of it."""
    with Client(address, timeout=60) as client:
        predict, model = SYSTEMS[system](place, *data(place, name), client)
    other = rows(10_000, 20_000)
    right = float(np.mean(np.asarray(predict(other[:, :COLUMNS])).astype(int) == other[:, COLUMNS]))
    found = {"accuracy": right, "sha256": hashlib.sha256(model).hexdigest()}
    staged = Path(place) / "result.new"
    staged.write_text(json.dumps(found))
    staged.rename(Path(place) / "result.json")


if __name__ == "__main__":
    ask = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("system", "address", "place", "name"):
        ask.add_argument(name)
    main(**vars(ask.parse_args()))
