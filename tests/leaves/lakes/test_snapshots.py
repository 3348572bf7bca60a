"""Delta and Iceberg tables are read as their own packages read them: the newest snapshot, no removed row."""

import json
import shutil

import deltalake
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from dkernel import open_source
from dkernel.errors import DataError


def rows(rng, n):
    return pd.DataFrame(
        {
            "x": rng.normal(size=n),
            "k": rng.choice(["a", "b", "c"], n),
            "id": rng.integers(0, 1000, n),
            "label": rng.integers(0, 2, n),
        }
    )


def write_history(folder, seed, steps=5):
    """A Delta table after some random changes."""
    rng = np.random.default_rng(seed)
    deltalake.write_deltalake(folder, rows(rng, 50), partition_by=["k"] if seed % 2 else None)
    for _ in range(steps):
        table = deltalake.DeltaTable(folder)
        match rng.integers(5):
            case 0:
                deltalake.write_deltalake(folder, rows(rng, 20), mode="append")
            case 1:
                table.delete("x > 1.2")
            case 2:
                table.update(updates={"x": "x * 2"}, predicate="id < 300")
            case 3:
                table.optimize.compact()
            case 4:
                deltalake.write_deltalake(folder, rows(rng, 30), mode="overwrite")


@pytest.mark.parametrize("seeds", [range(8), pytest.param(range(8, 100), marks=pytest.mark.slow)])
def test_a_delta_table_has_the_rows_of_its_newest_snapshot(seeds, tmp_path):
    for seed in seeds:
        folder = tmp_path / str(seed)
        write_history(folder, seed)
        expected = deltalake.DeltaTable(folder).to_pandas()
        source = open_source(folder, label="label", exclude="k")
        np.testing.assert_array_equal(source.y.compute(), expected["label"])
        np.testing.assert_array_equal(source.X.compute(), expected[["x", "id"]].to_numpy(np.float32))


def test_messages_and_plans_name_the_table_and_not_the_copy_of_its_rows(tmp_path, run_to):
    """They named a file of scratch, which doctor then missed on the workers; equal sizes are not equal snapshots."""
    seen = []
    for label in ([0, 1] * 20, [1, 0] * 20):
        deltalake.write_deltalake(tmp_path / "t", pa.table({"x": np.arange(40.0), "y": label}), mode="overwrite")
        source = open_source(tmp_path / "t", label="y")
        seen.append((*source.files, *source.stamps, source.fingerprint))
    assert {each[0] for each in seen} == {str(tmp_path / "t")}
    assert seen[0][1] != seen[1][1]
    assert seen[0][2] != seen[1][2]
    with pytest.raises(DataError, match=f"^{tmp_path}/t has no column 'z'"):
        open_source(tmp_path / "t", label="z")
    run_to("doctor", tmp_path / "t", "--label", "y", code=0)


def test_an_iceberg_table_has_the_rows_of_its_newest_snapshot(tmp_path):
    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/w")
    catalog.create_namespace("n")
    first, more = (pa.Table.from_pandas(rows(np.random.default_rng(i), 60), preserve_index=False) for i in range(2))
    table = catalog.create_table("n.t", first.schema)
    table.append(first)
    table.append(more)
    table.delete("x > 1.0")
    expected = table.scan().to_pandas()
    source = open_source(table.location().removeprefix("file://"), label="label", exclude="k")
    np.testing.assert_array_equal(source.X.compute(), expected[["x", "id"]].to_numpy(np.float32))
    assert source.n_rows == len(expected) < 120
    catalog.engine.dispose()


@pytest.fixture(scope="module")
def iceberg(tmp_path_factory):
    """The folder of an Iceberg table of 80 rows, of the last commit, and the names of its metadata."""
    place = tmp_path_factory.mktemp("iceberg")
    catalog = SqlCatalog("c", uri=f"sqlite:///{place}/c.db", warehouse=f"file://{place}/w")
    catalog.create_namespace("n")
    table = catalog.create_table("n.t", pa.schema([("x", pa.float64()), ("label", pa.int64())]))
    for i in range(2):
        table.append(pa.table({"x": np.arange(40.0) + i, "label": np.arange(40) % 2}))
    catalog.engine.dispose()
    return place / "w/n/t", sorted(path.name for path in (place / "w/n/t/metadata").glob("*.metadata.json"))


@pytest.fixture
def race(iceberg, tmp_path):
    """The folder of the table with a commit of the newest number that was lost, that of fewer rows; both names."""
    folder, names = tmp_path / "t", iceberg[1]
    shutil.copytree(iceberg[0], folder)
    lost = f"{names[-1][:5]}-ffffffff.metadata.json"
    shutil.copy(folder / "metadata" / names[1], folder / "metadata" / lost)
    return folder, names[-1], lost


def test_two_iceberg_commits_of_one_number_need_a_hint(race):
    folder, newest, lost = race
    with pytest.raises(DataError, match=rf"(?s){newest} and {lost} have one number.*Name the metadata file"):
        open_source(folder, label="label")
    assert open_source(folder / "metadata" / newest, label="label").n_rows == 80
    hint = folder / "metadata/version-hint.text"
    for text in (newest, newest.removesuffix(".metadata.json")):
        hint.write_text(text + "\n")
        assert open_source(folder, label="label").n_rows == 80
    hint.write_text("2")
    with pytest.raises(DataError, match="have one number"):
        open_source(folder, label="label")


def test_the_log_of_an_iceberg_commit_names_the_one_before_it(race):
    folder, newest, lost = race
    path = folder / "metadata" / newest
    content = json.loads(path.read_text())
    content["metadata-log"].append({"timestamp-ms": 1, "metadata-file": f"s3://b/t/metadata/{lost}"})
    path.write_text(json.dumps(content))
    assert open_source(folder, label="label").n_rows == 80


def test_the_command_learns_the_live_rows(run_to, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_history("t", 3)
    options = ["--kernel", "gaussian", "--gamma", "1", "--n-components", "16", "--alpha", "1e-3", "--json"]
    done = run_to("train", "t", "--label", "label", "--out", "m", *options)
    assert f'"rows": {len(deltalake.DeltaTable("t").to_pandas())}' in done.stdout


def test_what_a_package_does_not_read_is_refused(tmp_path):
    write_history(tmp_path / "t", 0, steps=0)
    log = tmp_path / "t" / "_delta_log" / "00000000000000000000.json"
    log.write_text(
        log.read_text().replace(
            '"minReaderVersion":1,"minWriterVersion":2',
            '"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["deletionVectors"],'
            '"writerFeatures":["deletionVectors"]',
        )
    )
    with pytest.raises(DataError, match=r"t: this table cannot be read .*[Dd]eletion"):
        open_source(tmp_path / "t", label="label")


def test_without_its_package_a_table_is_refused_by_name(tmp_path, monkeypatch):
    write_history(tmp_path / "t", 0, steps=0)
    monkeypatch.setitem(__import__("sys").modules, "deltalake", None)
    with pytest.raises(DataError, match=r"a Delta table.*pip install deltalake"):
        open_source(tmp_path / "t", label="label")
