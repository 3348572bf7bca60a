"""The real peaks of memory of a fit, beside those of its plan: run as a program, so that the process is a client alone.

python tests/training/peaks.py DATA COLUMNS WORKERS RECIPE       prints one JSON object
"""

import json
import sys

from dkernel.data.opening import open_source
from dkernel.model.recipe import Recipe
from dkernel.streaming.execution.connect import connect
from dkernel.training.fit import plan, train


def high_water():
    """The largest resident size that this process has had, by the kernel's own count: no sample misses it."""
    with open("/proc/self/status") as status:
        [line] = [line for line in status if line.startswith("VmHWM")]
    return 1024 * int(line.split()[1])


def main(data, label, workers, settings):
    source = open_source(data, label=label)
    recipe = Recipe(**json.loads(settings))
    with connect(workers=int(workers), memory_limit="6GiB") as executor:
        stated = plan(source, recipe, executor)
        train(source, recipe, executor)
        peaks = executor.client.run(high_water)
    print(json.dumps({
        "stated": {name: stated[name] for name in ("worker_bytes", "client_bytes")},
        "workers": sorted(peaks.values()),
        "client": high_water(),
        "kept": stated["kept"],
    }))  # fmt: skip


if __name__ == "__main__":
    main(*sys.argv[1:])
