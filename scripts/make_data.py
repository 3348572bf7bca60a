"""Make a two-class data set of any size whose best possible accuracy is known, block by block in bounded memory.

A row is x = n A with n standard normal and A = diag(s) Q: Q orthogonal, s = 1 for `SIGNAL` directions and `TAIL` for
the rest, so the features are correlated and a few directions carry the answer. With u the `SIGNAL` first entries of n,

    f(x) = u0^2 - u1^2 + 1.5 u2 u3 + 1.2 sin(1.3 u4),      label = (f > 0), flipped with probability eta.

A is invertible, so f is a function of x: no classifier has a lower error than eta, and the best one has exactly eta.
f is odd or antisymmetric in every part, so the classes are equally frequent; a linear rule finds only the sine.

Rows are numbered from 0. Row i depends on (seed, features, eta, i) alone: rows 0-9,999 are the same rows however many
are made at once and in how many processes; `--first-row` beyond the training rows gives test rows of the same law.
"""

import argparse
import concurrent.futures
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

GRANULE = 16_384  # rows drawn from one generator; a constant of the law, like SIGNAL and TAIL
SIGNAL = 5
TAIL = 0.1
ROW_GROUP = 131_072
LAW_FILE = "_law.json"


@dataclass(frozen=True)
class Law:
    """The distribution of a row and its label; equal laws give equal rows.

    Examples
    --------
    >>> X, y = Law(seed=1, features=8, eta=0.1).rows(0, 5)
    >>> X.shape, X.dtype.name, y.dtype.name
    ((5, 8), 'float32', 'int8')
    """

    seed: int = 0
    features: int = 28
    eta: float = 0.1

    def __post_init__(self) -> None:
        if self.features < SIGNAL:
            raise ValueError(f"make_data: {self.features} features; the law needs at least {SIGNAL}.")
        if not 0 <= self.eta < 0.5:
            raise ValueError(f"make_data: --noise {self.eta} is not a flip probability; give one in [0, 0.5).")

    def _stream(self, purpose: int, index: int) -> np.random.Generator:
        return np.random.Generator(np.random.Philox(key=[self.seed, purpose], counter=[0, 0, 0, index]))

    def mixing(self) -> NDArray[np.float32]:
        """A, shape (features, features): diag(s) Q with Q orthogonal, drawn from the seed."""
        Q, R = np.linalg.qr(self._stream(0, 0).standard_normal((self.features, self.features)))
        s = np.full(self.features, TAIL)
        s[:SIGNAL] = 1
        return (s[:, None] * Q * np.sign(np.diag(R))).astype(np.float32)

    def granule(self, index: int, mixing: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.int8]]:
        """Rows [index * GRANULE, (index + 1) * GRANULE): always whole, so a product has the same shape and bits."""
        rng = self._stream(1, index)
        normal = rng.standard_normal((GRANULE, self.features), dtype=np.float32)
        flip = rng.random(GRANULE, dtype=np.float32) < self.eta
        return normal @ mixing, ((clean(normal) > 0) ^ flip).astype(np.int8)

    def rows(self, first: int, n: int) -> tuple[NDArray[np.float32], NDArray[np.int8]]:
        """X (n, features) and y (n,) of the rows first, ..., first + n - 1."""
        X, y, mixing = np.empty((n, self.features), np.float32), np.empty(n, np.int8), self.mixing()
        for index in range(first // GRANULE, -(-(first + n) // GRANULE)):
            low, high = max(first, index * GRANULE), min(first + n, (index + 1) * GRANULE)
            made, labels = self.granule(index, mixing)
            X[low - first : high - first] = made[low - index * GRANULE : high - index * GRANULE]
            y[low - first : high - first] = labels[low - index * GRANULE : high - index * GRANULE]
        return X, y


def clean(normal: NDArray[np.float32]) -> NDArray[np.float32]:
    """f of the rows, from n = x inv(A): (rows, features) -> (rows,); its sign is the best prediction there is."""
    u = normal[:, :SIGNAL].T
    return u[0] ** 2 - u[1] ** 2 + 1.5 * u[2] * u[3] + 1.2 * np.sin(1.3 * u[4])


def names(features: int) -> list[str]:
    """x00, x01, ...: names whose alphabetic order is their order."""
    width = max(2, len(str(features - 1)))
    return [f"x{i:0{width}d}" for i in range(features)]


def blocks(first: int, n: int, step: int) -> Iterator[tuple[int, int]]:
    """(first row, rows) of consecutive blocks of at most `step` rows."""
    for low in range(first, first + n, step):
        yield low, min(step, first + n - low)


def write_parquet(law: Law, path: Path, first: int, n: int, step: int) -> None:
    """One Parquet file, a row group per block; plain encoding, since dictionaries of random numbers only cost."""
    fields = [pa.field(name, pa.float32(), nullable=False) for name in names(law.features)]
    schema = pa.schema([*fields, pa.field("label", pa.int8(), nullable=False)])
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
        for low, rows in blocks(first, n, step):
            X, y = law.rows(low, rows)
            arrays = [pa.array(column) for column in np.ascontiguousarray(X.T)]
            writer.write_table(pa.Table.from_arrays([*arrays, pa.array(y)], schema=schema), row_group_size=step)


def write_npy(law: Law, path: Path, first: int, n: int, step: int) -> None:
    """One NPY file of (n, features + 1) float32, the label last."""
    out = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(n, law.features + 1))
    for low, rows in blocks(first, n, step):
        X, y = law.rows(low, rows)
        out[low - first : low - first + rows, :-1] = X
        out[low - first : low - first + rows, -1] = y
    out.flush()


def write_csv(law: Law, path: Path, first: int, n: int, step: int) -> None:
    """One CSV file with a line of names; the digits that give the float32 numbers again."""
    schema = pa.schema([(name, pa.float32()) for name in names(law.features)] + [("label", pa.int8())])
    with pa.csv.CSVWriter(path, schema) as writer:
        for low, rows in blocks(first, n, step):
            X, y = law.rows(low, rows)
            arrays = [pa.array(column) for column in np.ascontiguousarray(X.T)]
            writer.write_table(pa.Table.from_arrays([*arrays, pa.array(y)], schema=schema))


WRITERS = {"parquet": write_parquet, "npy": write_npy, "csv": write_csv}


def _write(form: str, law: Law, path: Path, first: int, n: int, step: int) -> None:
    """One file, through a hidden sibling and a rename: a file that is there is whole."""
    staged = path.with_name(f".{path.name}.{os.getpid()}")
    WRITERS[form](law, staged, first, n, step)
    staged.replace(path)


def parts(out: Path, form: str, first: int, n: int, files: int, step: int) -> list[tuple[Path, int, int]]:
    """(file, first row, rows) of every file: whole blocks each, about `files` of them, or the one that `out` names."""
    if out.suffix == f".{form}":
        return [(out, first, n)]
    share = -(-n // (files * step)) * step
    return [(out / f"part-{i:05d}.{form}", low, rows) for i, (low, rows) in enumerate(blocks(first, n, share))]


def make(law: Law, form: str, pieces: list[tuple[Path, int, int]], step: int, processes: int) -> None:
    """Write every file, in as many processes; one BLAS thread each, since the processes already fill the cores."""
    pieces[0][0].parent.mkdir(parents=True, exist_ok=True)
    if min(processes, len(pieces)) == 1:
        with threadpool_limits(1):
            for piece in pieces:
                _write(form, law, *piece, step)
        return
    with concurrent.futures.ProcessPoolExecutor(
        min(processes, len(pieces)), multiprocessing.get_context("spawn"), threadpool_limits, (1,)
    ) as pool:
        for job in [pool.submit(_write, form, law, *piece, step) for piece in pieces]:
            job.result()


def parser() -> argparse.ArgumentParser:
    ask = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ask.add_argument("--rows", type=int, default=12_000_000)
    ask.add_argument("--features", type=int, default=28)
    ask.add_argument("--out", type=Path, required=True, help="a folder, or one file with the format's ending")
    ask.add_argument("--seed", type=int, default=0)
    ask.add_argument("--format", choices=sorted(WRITERS), default="parquet")
    ask.add_argument("--noise", type=float, default=0.1, help="probability of a flipped label: the Bayes error")
    ask.add_argument("--first-row", type=int, default=0, help="number of the first row made")
    ask.add_argument("--files", type=int, default=8, help="part files of a folder")
    ask.add_argument("--chunk-rows", type=int, default=ROW_GROUP, help="rows made at once; a Parquet row group")
    ask.add_argument("--processes", type=int, default=min(8, os.cpu_count() or 1))
    return ask


def main(arguments: list[str] | None = None) -> int:
    """Make what is asked unless it is already there, whole; print one JSON line about it."""
    ask = parser()
    args = ask.parse_args(arguments)
    counts = (args.rows, args.features, args.files, args.chunk_rows, args.processes)
    if min(counts) < 1 or min(args.seed, args.first_row) < 0:
        ask.error("--rows, --features, --files, --chunk-rows and --processes are at least 1, --seed and --first-row 0")
    try:
        law = Law(args.seed, args.features, args.noise)
    except ValueError as error:
        ask.error(str(error))
    pieces = parts(args.out, args.format, args.first_row, args.rows, args.files, args.chunk_rows)
    asked = {**asdict(law), "rows": args.rows, "first_row": args.first_row, "format": args.format}
    asked |= {"files": len(pieces), "chunk_rows": args.chunk_rows, "bayes_error": law.eta}
    single = pieces[0][0] == args.out
    sidecar = args.out.with_name(f"_{args.out.stem}{LAW_FILE}") if single else args.out / LAW_FILE
    # The sidecar is written last and a file by one rename: what they say is whole.
    there = sidecar.exists() and json.loads(sidecar.read_text()) == asked and all(p.exists() for p, _, _ in pieces)
    start = time.perf_counter()
    if not there:
        sidecar.unlink(missing_ok=True)
        for old in [] if single else args.out.glob("*part-*"):
            old.unlink()
        make(law, args.format, pieces, args.chunk_rows, args.processes)
        sidecar.write_text(json.dumps(asked) + "\n")
    seconds = round(time.perf_counter() - start, 2)
    print(json.dumps({**asked, "seconds": seconds, "out": str(args.out), "already_there": there}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
