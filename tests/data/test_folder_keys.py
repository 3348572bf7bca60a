"""Folders of the values of a column: year=2020/part.0.parquet, as Dask, Spark and pandas write and read them."""

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

from dkernel.data.opening import open_source
from dkernel.errors import DataError, DKernelWarning
from tests.data.blocks import read_blocks


def frame(n: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    data = {"x": rng.normal(size=n), "year": rng.integers(2019, 2022, n), "city": rng.choice(["a,b", "c"], n)}
    return pd.DataFrame(data).sort_values(["year", "city"], ignore_index=True)


@pytest.fixture
def folder(tmp_path):
    frame().to_parquet(tmp_path / "hive", partition_cols=["year", "city"])
    return tmp_path / "hive"


@pytest.mark.parametrize("pattern", ["", "/*", "/*/*/*.parquet"])
def test_keys_are_categories_as_in_dask(folder, pattern):
    source = open_source(f"{folder}{pattern}" if pattern != "/*" else [str(p) for p in sorted(folder.iterdir())])
    lazy = dd.read_parquet(folder).compute()
    assert source.table_columns == tuple(lazy.columns) == ("x", "year", "city")
    assert source.encoding.kinds == {"x": "number", "year": "category", "city": "category"}
    assert source.encoding.columns[1].levels == tuple(map(str, lazy["year"].cat.categories))
    X = source.X.compute(scheduler="sync")
    np.testing.assert_allclose(X[:, 0], lazy["x"], rtol=1e-6)
    np.testing.assert_array_equal(X[:, 1:4] > 0, pd.get_dummies(lazy["year"]).to_numpy())
    np.testing.assert_array_equal(X[:, 4:] > 0, pd.get_dummies(lazy["city"]).to_numpy())


def test_whole_numbers_are_numbers_where_there_are_no_categories(folder):
    source = open_source(folder, exclude="city", categorical="none")
    X = source.X.compute(scheduler="sync")
    np.testing.assert_array_equal(X[:, 1], frame()["year"])


def test_a_key_is_a_label_a_weight_or_kept(folder):
    source = open_source(folder, label="city", weight="year", categorical="none")
    assert (source.columns, source.label_kind) == (("x",), "text")
    blocks = read_blocks(source)
    assert np.concatenate([block.y for block in blocks]).tolist() == frame()["city"].tolist()
    assert np.concatenate([block.weight for block in blocks]).tolist() == frame()["year"].tolist()
    assert open_source(folder, label="year", exclude="city").label_kind == "int"
    for form in ("types", "text"):
        kept = read_blocks(open_source(folder, columns=["x"], keep=["city", "year"], kept_as=form))[0].kept
        assert kept.column_names == ["city", "year"]
        assert kept.column("city")[0].as_py() == "a,b"


def test_a_model_takes_the_keys_that_it_knows_and_no_others(folder):
    encoding = open_source(folder, exclude="city").encoding
    one = folder / "year=2020" / "city=c"
    source = open_source(f"{one}/*", columns=encoding.column_names, encoding=encoding)
    assert (read_blocks(source)[0].X[:, 2] > 0).all()
    assert open_source(f"{one}/*").columns == ("x",)  # all rows are of one year
    assert open_source(folder, columns=["x"]).columns == ("x",)


def test_a_missing_value_is_one(tmp_path):
    frame().replace({"city": {"c": None}}).to_parquet(tmp_path / "h", partition_cols=["city"])
    source = open_source(tmp_path / "h")
    assert source.columns[-2:] == ("city=a,b", "city=missing")
    with pytest.raises(DataError, match="the folder says that 'city' is missing"):
        read_blocks(open_source(tmp_path / "h", label="city"))


def test_numbers_of_another_width_are_the_same_value(tmp_path):
    for month in ("01", "02"):
        (tmp_path / f"month={month}").mkdir()
        frame(3).to_csv(tmp_path / f"month={month}" / "a.csv", index=False)
    assert open_source(tmp_path).encoding.columns[-1].levels == ("1", "2")


def test_a_column_of_the_files_goes_before_the_name_of_a_folder(tmp_path):
    for year in ("2020", "2021"):
        (tmp_path / f"year={year}").mkdir()
        frame(4).drop(columns="city").to_parquet(tmp_path / f"year={year}" / "a.parquet")
    assert open_source(tmp_path).columns == ("x", "year")


def test_a_key_that_some_files_lack_is_told_of(folder, tmp_path):
    frame()[["x"]].to_parquet(tmp_path / "alone.parquet")
    with pytest.warns(DKernelWarning, match="'year', 'city', which is left out"):
        source = open_source([folder, tmp_path / "alone.parquet"])
    assert source.columns == ("x",)


def test_rows_that_are_left_out_are_counted_in_their_own_file(tmp_path):
    for year in ("2020", "2021"):
        (tmp_path / f"year={year}").mkdir()
        (tmp_path / f"year={year}" / "a.csv").write_text("x\n1\nbad\n3\n")
    source = open_source(tmp_path, columns=["x"], keep="year", quarantine=True)
    blocks = read_blocks(source)
    assert [block.kept.column("year").to_pylist() for block in blocks] == [[2020, 2020], [2021, 2021]]
    assert [block.refused.column("line").to_pylist() for block in blocks] == [[3], [3]]


def test_folders_in_memory_of_a_store(folder):
    fsspec = pytest.importorskip("fsspec")
    system = fsspec.filesystem("memory")
    for path in sorted(folder.rglob("*.parquet")):
        system.pipe_file(f"/hive/{path.relative_to(folder)}", path.read_bytes())
    try:
        assert open_source("memory://hive").table_columns == ("x", "year", "city")
    finally:
        system.rm("/hive", recursive=True)


@pytest.mark.parametrize("months", [("01", "02", "12"), ("1", "2", "12"), ("01", "x", "12")])
def test_a_key_and_a_column_of_the_same_text_are_one_category(tmp_path, months):
    for month in months:
        (tmp_path / "folders" / f"month={month}").mkdir(parents=True)
        frame(4)[["x"]].to_parquet(tmp_path / "folders" / f"month={month}" / "a.parquet")
    texts = pd.concat([frame(4)[["x"]].assign(month=month) for month in months])
    texts.to_parquet(tmp_path / "texts.parquet", index=False)
    texts.to_csv(tmp_path / "texts.csv", index=False)
    doors = {"folders": {}, "texts.parquet": {}, "texts.csv": {"categorical": ("month",)}}
    for door, more in doors.items():
        encoding = open_source(tmp_path / door, **more).encoding
        for other in doors:
            source = open_source(tmp_path / other, columns=encoding.column_names, encoding=encoding)
            assert all(block.marks is None for block in read_blocks(source)), (door, other, encoding)
