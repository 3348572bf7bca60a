"""Rows on the local disk: slices, the way to another process, a file that goes with its rows, a full disk."""

import gc
import os
import pickle
import resource
import subprocess
import sys

import numpy as np
import pytest

from dkernel.streaming.stored_rows import DiskFolder, StoredRows

PAIRS = np.array([(i, i / 2) for i in range(10)], [("number", "<i8"), ("value", "<f4", (1,))])


@pytest.mark.parametrize("rows", [np.arange(20.0).reshape(10, 2), PAIRS, PAIRS[:0]], ids=["numbers", "records", "none"])
def test_slices_are_those_of_the_array_here_and_after_pickling(rows, tmp_path):
    stored = StoredRows(rows, DiskFolder(str(tmp_path), "slices"))
    more = StoredRows(rows[::-1], DiskFolder(str(tmp_path), "slices"))
    for found in (stored, pickle.loads(pickle.dumps(stored))):
        assert len(found) == len(rows)
        for part in (slice(None), slice(3, 7), slice(5, 5), slice(8, 30)):
            np.testing.assert_array_equal(found[part], rows[part])
    np.testing.assert_array_equal(more[:], rows[::-1])


def test_the_file_has_no_name_and_goes_with_the_last_rows(tmp_path):
    stored = [StoredRows(np.arange(1000.0), DiskFolder(str(tmp_path / "new"), "name")) for _ in range(2)]
    file = stored[0]._file._file
    assert stored[1]._file is stored[0]._file
    assert list((tmp_path / "new").iterdir()) == []
    del stored[0]
    gc.collect()
    assert not file.closed
    stored.clear()
    gc.collect()
    assert file.closed


def test_a_full_disk_is_named(tmp_path):
    script = (
        "import sys, numpy as np\n"
        "from dkernel.errors import ClusterError\n"
        "from dkernel.streaming.stored_rows import DiskFolder, StoredRows\n"
        "place = DiskFolder(sys.argv[1], 'full')\n"
        "first = StoredRows(np.zeros(1000), place)\n"
        "try:\n    StoredRows(np.zeros(1000), place)\n"
        "except ClusterError as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=False, timeout=120,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (12_000, 12_000)), env=dict(os.environ),
    )  # fmt: skip
    assert done.stdout.startswith(f"{tmp_path}: no room to write"), done.stderr
