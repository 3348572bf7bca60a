"""Units travel to worker processes, and scanning and unpacking happen there."""

import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
import pytest
from distributed import Client, LocalCluster

from dkernel.data.collections.arrays import from_arrays
from dkernel.data.opening import open_source

pytestmark = pytest.mark.cluster


def test_everything_is_read_by_the_workers(shared_cluster: LocalCluster, tmp_path: Path) -> None:
    X = np.random.default_rng(1).standard_normal((5000, 3)).astype(np.float32)
    y = np.array(["no", "yes"])[(X[:, 0] > 0).astype(int)]
    table = pa.table({**{f"f{j}": X[:, j] for j in range(3)}, "label": y})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=700)
    arrow_csv.write_csv(table, tmp_path / "b.csv")
    (tmp_path / "c.csv.gz").write_bytes(gzip.compress((tmp_path / "b.csv").read_bytes()))
    with Client(shared_cluster) as client:
        seen = []

        def compute(*tasks: object) -> tuple:
            seen.append(len(tasks))
            return tuple(client.gather(client.compute(list(tasks))))

        source = open_source(tmp_path, label="label", compute=compute, scratch=tmp_path / "_scratch")
        assert seen == [1, 2]
        futures = client.compute([unit.task for unit in source.units], optimize_graph=False)
        blocks = [b for unit in client.gather(futures) for b in unit]
        np.testing.assert_array_equal(np.concatenate([b.X for b in blocks]), np.concatenate([X] * 3))
        np.testing.assert_array_equal(np.concatenate([b.y for b in blocks]), np.concatenate([y] * 3))
        arrays = from_arrays(X, y)
        assert client.gather(client.compute(arrays.units[0].task))[0].y.tolist() == y.tolist()
