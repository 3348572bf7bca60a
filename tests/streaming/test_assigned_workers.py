"""Rows that a cluster holds are read where they are; lists of futures are refused."""

import itertools
import warnings
from contextlib import closing, contextmanager

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster, wait

from dkernel import KernelClassifier
from dkernel.data.collections.arrays import from_arrays
from dkernel.errors import DataError, DKernelWarning
from dkernel.model import model_file
from dkernel.streaming import block_reader, shares
from dkernel.streaming.block_reader import BlockReader
from dkernel.streaming.execution.cluster import ClusterExecutor
from dkernel.streaming.execution.local import SerialExecutor
from dkernel.streaming.progress import Progress
from dkernel.streaming.schedule import cut_pieces
from dkernel.streaming.shares import MOST_UNEVEN, assign_workers, is_even, make_shares
from tests.combinations import every_two
from tests.streaming.sources import rings, source_of
from tests.streaming.statistics import Sum

CHUNKS, ROWS = 8, 1500
SLOW = pytest.mark.slow


@pytest.mark.parametrize("seed", range(20))
def test_nobody_reads_much_more_than_one_and_a_half_shares(seed):
    rng = np.random.default_rng(seed)
    rows = rng.integers(1, 100, rng.integers(1, 40)).tolist()
    threads = {f"w{i}": int(rng.integers(1, 4)) for i in range(rng.integers(1, 6))}
    holders = [list(rng.choice([*threads], rng.integers(0, 3))) for _ in rows]
    found, moved = assign_workers(rows, holders, threads)
    share = sum(rows) / sum(threads.values())
    for worker, n in threads.items():
        assert sum(r for r, at in zip(rows, found, strict=True) if at == worker) <= MOST_UNEVEN * share * n + max(rows)
    assert moved == [i for i, at in enumerate(found) if holders[i] and at not in holders[i]]


@contextmanager
def cluster(workers):
    # Dask moves what is small from worker to worker for reasons of its own, which are not counted here.
    quiet = {"distributed.scheduler.work-stealing": False, "distributed.scheduler.active-memory-manager.start": False}
    asked = {"n_workers": workers, "threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
    with dask.config.set(quiet), LocalCluster(**asked) as made, Client(made) as client:
        yield client


def transfers(client, size):
    """How many values of so many bytes, chunks or blocks of them, came to a worker from another one."""

    def came(dask_worker):
        return [item for log in dask_worker.transfer_incoming_log for item in log["keys"].items()]

    found = [item for some in client.run(came).values() for item in some]
    return sum(nbytes >= size and not str(key).startswith("dkernel-state") for key, nbytes in found)


def placed(client, parts, where):
    """An array of the parts, each on a worker of the client by its number; tasks, so that they can be made again."""
    workers = sorted(client.scheduler_info()["workers"])
    made = [
        client.submit(np.copy, part, key=f"rows-{name}-{i}", workers=[workers[where[i]]])
        for i, (name, part) in enumerate(parts)
    ]
    wait(made)
    rows = [da.from_delayed(future, part.shape, part.dtype) for future, (_, part) in zip(made, parts, strict=True)]
    return client.persist(da.concatenate(rows))


def parts(name, values):
    return [(name, part) for part in np.array_split(values, CHUNKS)]


def fitted():
    return KernelClassifier(n_components=64, gamma=0.5, alpha=1e-5, local="none", random_state=0)


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("workers", "where", "moved"),
    [
        (2, [0] * 4 + [1] * 4, 0), pytest.param(2, [0] * 8, 2, marks=SLOW), pytest.param(2, [0, 1] * 4, 0, marks=SLOW),
        pytest.param(4, [0, 1, 2, 3] * 2, 0, marks=SLOW), (4, [0] * 8, 5), (4, [0] * 3 + [1] * 3 + [2, 3], 0),
    ],
)  # fmt: skip
def test_rows_stay_unless_one_worker_holds_too_many(workers, where, moved):
    X, y = rings(CHUNKS * ROWS)
    alone = fitted().fit(da.from_array(X, (ROWS, -1)), da.from_array(y, ROWS))
    with cluster(workers) as client:
        Xs, ys = placed(client, parts("x", X), where), placed(client, parts("y", y), where)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            model = fitted().fit(Xs, ys)
        assert transfers(client, X[:ROWS].nbytes) == moved
        words = [str(w.message) for w in said if issubclass(w.category, DKernelWarning)]
        assert words == [w for w in words if f"{moved} of 8 chunks are copied" in w]
        assert bool(words) == bool(moved)
    assert model_file.compute_digest(model.model_) == model_file.compute_digest(alone.model_)


@pytest.mark.cluster
def test_sums_that_workers_merge_make_the_same_file(monkeypatch):
    monkeypatch.setattr(shares, "MERGED", 2)
    X, y = rings(CHUNKS * ROWS)
    rows = da.from_array(X, (ROWS, -1)), da.from_array(y, ROWS)
    alone, merged = fitted().fit(*rows), []
    merge = shares.merge_calls
    monkeypatch.setattr(block_reader, "merge_calls", lambda *args: merged.append(args) or merge(*args))
    with cluster(8):
        model = fitted().fit(*rows)
    assert any(len(calls) == 8 for _, _, calls, _ in merged)
    assert model_file.compute_digest(model.model_) == model_file.compute_digest(alone.model_)


@pytest.mark.cluster
@pytest.mark.usefixtures("each_alone")
@pytest.mark.parametrize(("held", "workers"), every_two(["persisted", "read"], [2, 4]))
def test_a_round_of_one_or_two_pieces_copies_no_chunk(workers, held):
    X, y = rings(CHUNKS * ROWS)
    plain = source_of(X, y, [(ROWS,)] * CHUNKS)
    cut = cut_pieces([unit.rows for unit in plain.units])
    rounds = [cut.part(np.array(some)) for n in (1, 2) for some in itertools.combinations(range(len(cut)), n)]
    with cluster(workers) as client, ClusterExecutor(client) as executor:
        where = [i % workers for i in range(CHUNKS)]
        rows = placed(client, parts("x", X), where), placed(client, parts("y", y), where)
        source = plain if held == "read" else from_arrays(*rows)
        alone = BlockReader(SerialExecutor(), plain, keep=True)
        with closing(BlockReader(executor, source, keep=True)) as reader:
            reader.fold(Sum(), cut, "all", Progress("none"))
            for i, pieces in enumerate(rounds):
                assert reader.reduce(Sum(), pieces, f"{i}") == alone.reduce(Sum(), pieces, f"{i}")
            assert transfers(client, X[:ROWS].nbytes) == 0


@pytest.mark.parametrize(("rows", "stays"), [([2, 2, 2, 0], True), ([4, 2, 0, 0], False), ([8, 0, 0, 0], False)])
def test_rows_stay_where_no_worker_has_many_more_than_its_share(rows, stays):
    places = {chunk: f"w{worker}" for chunk, worker in enumerate(w for w, n in enumerate(rows) for _ in range(n))}
    threads = {f"w{i}": 1 for i in range(4)}
    assert is_even({f"w{i}": n for i, n in enumerate(rows)}, threads) == stays
    pair = {chunk: places[chunk] for chunk in (0, 1)}
    for stay in (True, False):
        found = make_shares({chunk: [10] for chunk in pair}, pair, threads, 4, stay)
        assert ([share.at for share in found] == ["w0"]) == stay


@pytest.mark.cluster
def test_a_persisted_collection_stays_and_lists_of_futures_are_refused():
    X, y = rings(CHUNKS * ROWS)
    with cluster(2) as client:
        rows, labels = da.from_array(X, (ROWS, -1)).persist(), da.from_array(y, ROWS).persist()
        wait([rows, labels])
        holders = [len(keys) for keys in client.has_what().values()]
        assert min(holders) >= CHUNKS / 2
        collection = fitted().fit(rows, labels)
        assert transfers(client, X[:ROWS].nbytes) == 0
        frames = client.scatter([pd.DataFrame(p, columns=list("abcdef")) for _, p in parts("x", X)], hash=False)
        for take in (lambda: fitted().fit(frames, y), lambda: fitted().fit(X, frames), lambda: from_arrays(frames)):
            with pytest.raises(DataError, match=r"dd\.from_delayed"):
                take()
        framed = fitted().fit(dd.from_delayed(frames), labels)
    np.testing.assert_array_equal(collection.model_.coef, framed.model_.coef)
    assert list(framed.feature_names_in_) == list("abcdef")
