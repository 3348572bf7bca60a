"""Parts are found by their names, and their bytes must be the ones that they were named after."""

import numpy as np
import pyarrow as pa

from dkernel.data.writers.manifest import OutputPart, PartWriter


def test_a_part_is_found_by_name_and_content(tmp_path):
    part = PartWriter(str(tmp_path), 3, 5, ".csv").write([pa.table({"id": np.arange(5)})])
    assert [p.name for p in tmp_path.iterdir()] == [part.staged]
    assert OutputPart.of_file(tmp_path / part.staged) == part
    (tmp_path / part.staged).write_bytes(b"other")
    assert OutputPart.of_file(tmp_path / part.staged) is None
    assert OutputPart.of_file(tmp_path / "lock") is None
