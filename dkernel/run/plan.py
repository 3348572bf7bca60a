"""The plan: what a fit will need and do, stated before it runs. Bytes and flops are predictions from sizes alone."""

from dataclasses import asdict, dataclass
from typing import Any

from dkernel.data.source import Source
from dkernel.errors import MemoryBudgetError
from dkernel.recipe import Recipe
from dkernel.run.executors import Executor
from dkernel.run.pieces import bundle_size
from dkernel.run.sizes import Sizes

__all__ = ["Plan"]

# Resident memory of a process after its imports, as Dask counts it against a worker's limit.
WORKER_BASE = 256 * 2**20
CLIENT_BASE = 360 * 2**20
HELD_SHARE = 0.4  # of the workers' memory: what a source may take that is kept between passes


@dataclass(frozen=True)
class Plan:
    """Predicted peak bytes and flops of a fit.

    Parameters
    ----------
    worker_bytes : of each worker's process (of this process, where threads do the work)
    client_bytes : of the client, beside that
    memory_limit : of each worker, None where none is known
    kept : whether the source stays in the workers' memory between passes
    in_process : whether the work is done in the client's own process
    survey_flops, setup_flops, pass_flops : of each stage
    """

    n: int
    p: int
    columns: int
    outputs: int
    rounds: int
    passes: int
    reservoir: int
    worker_bytes: int
    client_bytes: int
    memory_limit: int | None
    kept: bool
    in_process: bool
    survey_flops: float
    setup_flops: float
    pass_flops: float

    @classmethod
    def of(cls, source: Source, recipe: Recipe, executor: Executor, outputs: int = 1) -> "Plan":
        """The plan for a source."""
        sizes = Sizes.of(source.n_rows, source.n_in, recipe)
        n, p, D = sizes.n, sizes.p, sizes.columns
        item = 4 if source.dtype == "float32" else 8
        row = p * item + 16
        unit = max((unit.n_rows for unit in source.units), default=0) * row
        bundle = bundle_size([unit.rows for unit in source.units], row)
        matrix = 8 * D * D
        # While one bundle is used the next is read, and one worker may have got all of it; reading holds a unit twice,
        # as it was stored and as a block.
        in_flight = min(2 * bundle, len(source.units)) * unit
        # A rule that evaluates the kernel holds a column of all candidates for each landmark.
        picking = 8 * sizes.candidates * D if sizes.candidates > D else 0
        working = _working(D, outputs)
        reservoir = sizes.reservoir * row
        workers = executor.workers
        threads = max(1, executor.slots // workers)
        worker = WORKER_BASE + in_flight + threads * (2 * unit + working) + reservoir + 4 * D * p
        client = CLIENT_BASE + 3 * reservoir + max(8 * matrix, picking)
        limit = executor.memory_limit
        total = limit * workers if limit else _available()
        kept = source.nbytes * 1.1 + workers * worker < total and source.nbytes < HELD_SHARE * total
        return cls(
            n=n,
            p=p,
            columns=D,
            outputs=outputs,
            rounds=recipe.rounds,
            passes=recipe.passes,
            reservoir=sizes.reservoir,
            worker_bytes=int(worker),
            client_bytes=int(client),
            memory_limit=limit,
            kept=kept,
            in_process=executor.name != "cluster",
            survey_flops=float(n) * p * 8,
            setup_flops=float(sizes.sample) * D * (D + 2 * p + 20) + 2.0 * D**3 + picking / 8.0 * (D + 2 * p + 20),
            pass_flops=float(n) * D * (2 * p + 20 + 4 * outputs),
        )

    def check(self) -> None:
        """Refuse what cannot fit, with both numbers and what would."""
        if self.memory_limit is not None and self.worker_bytes > self.memory_limit:
            fixed, smaller = self.worker_bytes - _working(self.columns, self.outputs), self.columns
            while smaller > 64 and fixed + _working(smaller, self.outputs) > self.memory_limit:
                smaller //= 2
            fits = fixed + _working(smaller, self.outputs) <= self.memory_limit
            fewer = f", or use n_components={smaller}" if fits else ""
            raise MemoryBudgetError(
                f"Each worker needs about {_mib(self.worker_bytes)} and has a limit of {_mib(self.memory_limit)}. "
                f"Raise --memory-limit to {_mib(self.worker_bytes)}{fewer}, or give a source in smaller chunks."
            )
        here = self.client_bytes + (self.worker_bytes if self.in_process else 0)
        if here > _installed():
            raise MemoryBudgetError(
                f"This process needs about {_mib(here)}, most of it for the square of n_components={self.columns}, "
                f"and the machine has {_mib(_installed())}. Use fewer components."
            )

    def as_dict(self) -> dict[str, Any]:
        """For JSON and for people."""
        return asdict(self)


def _working(columns: int, outputs: int) -> int:
    """Bytes of one task at its largest: the Gram matrix of the sample, or a tile of rows with its gradient."""
    return max(16 * columns**2 + 16 * 2048 * columns, 4 * 256 * columns + 48 * columns * outputs)


def _mib(n: float) -> str:
    return f"{n / 2**20:,.0f} MiB"


def _available() -> int:
    import psutil

    return int(psutil.virtual_memory().available)


def _installed() -> int:
    import psutil

    return int(psutil.virtual_memory().total)
