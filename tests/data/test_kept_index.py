"""An index of pandas or Dask is no feature, but it is a column: "all" keeps it, or a file without it is refused."""

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

from dkernel.data.opening import open_source
from dkernel.errors import DataError
from tests.data.blocks import read_kept

N = 6
FRAME = pd.DataFrame({"x": np.arange(N) / 4, "note": list("abcdef")})
INDICES = {
    "text": pd.Index([f"c{i}" for i in range(N)], name="customer"),
    "dates": pd.date_range("2024-01-01", periods=N, name="day"),
    "numbers without a name": pd.Index([3, 1, 4, 5, 9, 2]),
    "two levels": pd.MultiIndex.from_arrays([list("aabbcc"), [3, 1, 4, 5, 9, 2]], names=["shop", "till"]),
    "two levels without names": pd.MultiIndex.from_arrays([list("aabbcc"), [3, 1, 4, 5, 9, 2]]),
}


def write_dask(frame, path):
    dd.from_pandas(frame, npartitions=1, sort=False).to_parquet(path)


FILES = {
    "Parquet": ("t.parquet", pd.DataFrame.to_parquet),
    "CSV": ("t.csv", pd.DataFrame.to_csv),
    "Dask": ("t", write_dask),
}


CASES = [(file, index) for file in FILES for index in INDICES if file != "Dask" or INDICES[index].nlevels == 1]


def kept_in(path, **options):
    return read_kept(open_source(path, columns=["x"], keep="all", **options))


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # of Dask
@pytest.mark.parametrize(("file", "index"), CASES)
def test_every_level_of_an_index_is_kept(file, index, tmp_path):
    name, write = FILES[file]
    indexed = FRAME.set_index(INDICES[index])
    if file == "CSV" and indexed.index.names == [None, None]:
        indexed.index.names = ["shop", None]  # a CSV has one column without a name at most
    write(indexed, tmp_path / name)
    kept = kept_in(tmp_path / name)
    assert kept.num_columns == indexed.index.nlevels + 2
    others = [kept[other].to_pylist() for other in kept.column_names if other not in FRAME]
    expected = [indexed.index.get_level_values(level).tolist() for level in range(indexed.index.nlevels)]
    assert [list(map(str, values)) for values in others] == [
        [str(value).removesuffix(" 00:00:00" if file == "CSV" else "") for value in values] for values in expected
    ]


@pytest.mark.parametrize("first", [0, 1])
def test_a_file_without_the_index_of_others_is_refused(first, tmp_path):
    FRAME.to_parquet(tmp_path / f"{first}.parquet")
    FRAME[FRAME.x != 0.25].to_parquet(tmp_path / f"{1 - first}.parquet")
    with pytest.raises(DataError, match=r"'__index_level_0__'.*Leave these columns out with exclude=COLUMN\."):
        kept_in(tmp_path)
    assert kept_in(tmp_path, exclude="__index_level_0__").column_names == ["x", "note"]
    assert open_source(tmp_path, keep="note", columns=["x"]).n_rows == 2 * N - 1
