"""Pure functions for the executors' tests, and ways to see how often and where they ran. Workers import this file."""

import os
import time
from pathlib import Path

import dask
import numpy as np

from dkernel.errors import DataError


def dot(a, b):
    return a @ b


def total(parts, weights):
    return sum(w * float(part.sum()) for part, w in zip(parts, weights["w"], strict=True))


def note(folder, name):
    """Leave a file that says: this ran once more, in this process."""
    made = Path(folder) / f"{name}.{os.getpid()}.{time.monotonic_ns()}"
    made.with_suffix(".tmp").touch()
    made.with_suffix(".tmp").rename(made)


def ran(folder, name="*"):
    """Process numbers of the runs of `name`, in their order."""
    files = [file for file in Path(folder).glob(f"{name}.*") if file.suffix != ".tmp"]
    return [int(file.name.split(".")[-2]) for file in sorted(files, key=lambda f: int(f.suffix[1:]))]


def noted_square(folder, i, seconds):
    note(folder, f"square{i}")
    time.sleep(seconds)
    return i * i


def refuse(folder):
    note(folder, "refuse")
    raise DataError("train.csv, row 17: the value nan is not finite.")


def fail_twice(folder, error):
    note(folder, "fail")
    if len(ran(folder, "fail")) <= 2:
        raise error("the disk sleeps")
    return 42


def failing_unit(folder):
    """What a source gives to be read ahead, from a disk that fails twice."""
    read = dask.delayed(lambda: (fail_twice(str(folder), OSError),), pure=True)
    return read(dask_key_name=f"fail-{folder.parent.name}")


def failing_chunk(folder):
    """The same of a Dask collection: several tasks."""
    return dask.delayed(tuple, pure=True)(failing_unit(folder), dask_key_name=f"chunk-of-{folder.parent.name}")


def vanish():
    os._exit(7)


def read(folder, seed):
    """Two blocks; not before a file called hold is gone."""
    note(folder, f"read{seed}")
    while (Path(folder) / "hold").exists():
        time.sleep(0.01)
    return blocks(seed)


def blocks(seed):
    """What `read` returns."""
    rng = np.random.default_rng(seed)
    return tuple(rng.standard_normal((100, 3)).astype("float32") for _ in range(2))


def unit(folder, seed):
    """What a source gives to be read ahead: a Delayed of a tuple of blocks."""
    return dask.delayed(read, pure=True, traverse=False)(str(folder), seed, dask_key_name=f"read-{seed}-{folder.name}")


def chunk(folder, seed):
    """What a Dask collection gives to be read: a Delayed of several tasks, whose names stay."""
    return dask.delayed(tuple, pure=True)(unit(folder, seed), dask_key_name=f"chunk-{seed}-{folder.name}")


def blas_threads():
    """How many threads each BLAS of this process has."""
    import scipy.linalg  # noqa: F401 - brings one of its own
    from threadpoolctl import threadpool_info

    return sorted({pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"})


def knows(key):
    """Whether the scheduler has heard of `key`."""
    return lambda dask_scheduler: key in dask_scheduler.tasks


def weighed(i, arrays, mapping):
    return i * mapping["w"] * sum(float(array.sum()) for array in arrays)


def spec(key):
    """Whether the scheduler could make `key` again."""
    return lambda dask_scheduler: dask_scheduler.tasks[key].run_spec is not None


def read_in_order(executor, calls):
    return executor.compute(calls)[0]


def read_as_they_come(executor, calls):
    """Sorted, as their order is in these tests."""
    return sorted(executor.as_they_come(calls))


READINGS = (read_in_order, read_as_they_come)
