"""The generator: the same rows however they are cut, and a label whose flip rate is the Bayes error it states."""

import contextlib
import io
import json
import subprocess
import sys
from pathlib import Path

import make_data
import numpy as np
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from make_data import GRANULE, SIGNAL, Law

from tests.processes import ROOT


def command(*arguments: object) -> dict[str, object]:
    """What the script prints, run in this process."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert make_data.main(["--processes", "1", *map(str, arguments)]) == 0
    return json.loads(printed.getvalue())


def as_a_user(*arguments: object) -> dict[str, object]:
    """What the script prints, run by name."""
    line = [sys.executable, str(ROOT / "scripts" / "make_data.py"), *map(str, arguments)]
    done = subprocess.run(line, capture_output=True, text=True, check=True, timeout=120)
    return json.loads(done.stdout)


def rows_of(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    tables = [pq.read_table(path) for path in sorted(folder.glob("part-*.parquet"))]
    X = np.concatenate(
        [np.column_stack([table[name].to_numpy() for name in table.column_names[:-1]]) for table in tables]
    )
    return X, np.concatenate([table["label"].to_numpy() for table in tables])


@pytest.mark.parametrize("step", [1000, 4096, 10_000])
def test_rows_do_not_depend_on_how_many_are_made_at_once(step):
    law = Law(seed=3, features=9)
    X, y = law.rows(0, 10_000)
    parts = [law.rows(low, n) for low, n in make_data.blocks(0, 10_000, step)]
    assert np.array_equal(X, np.concatenate([part[0] for part in parts]))
    assert np.array_equal(y, np.concatenate([part[1] for part in parts]))


def test_files_hold_the_same_rows_whatever_chunks_files_and_processes(tmp_path):
    fixed = ("--rows", 10_000, "--features", 7, "--seed", 5)
    as_a_user(*fixed, "--out", tmp_path / "a", "--chunk-rows", 1000, "--files", 3, "--processes", 2)
    command(*fixed, "--out", tmp_path / "b", "--chunk-rows", 4096, "--files", 1)
    for a, b in zip(rows_of(tmp_path / "a"), rows_of(tmp_path / "b"), strict=True):
        assert np.array_equal(a, b)
    assert np.array_equal(rows_of(tmp_path / "a")[0], Law(seed=5, features=7).rows(0, 10_000)[0])


def test_a_later_first_row_continues_the_same_law(tmp_path):
    command("--rows", 3000, "--features", 6, "--first-row", GRANULE - 1000, "--out", tmp_path / "late")
    X, y = rows_of(tmp_path / "late")
    whole, labels = Law(features=6).rows(0, GRANULE + 2000)
    assert np.array_equal(X, whole[-3000:])
    assert np.array_equal(y, labels[-3000:])


def test_other_seeds_and_other_rows_are_other_data():
    X = Law(seed=0).rows(0, 100)[0]
    assert not np.any(Law(seed=1).rows(0, 100)[0] == X)
    assert not np.any(Law(seed=0).rows(GRANULE, 100)[0] == X)


@pytest.mark.parametrize("eta", [0.0, 0.1, 0.3])
def test_labels_differ_from_the_clean_function_at_the_stated_rate(eta):
    law, n = Law(seed=2, features=12, eta=eta), 200_000
    X, y = law.rows(0, n)
    normal = X.astype(float) @ np.linalg.inv(law.mixing().astype(float))
    flipped = np.mean((make_data.clean(normal) > 0) != y)
    # Rows so near the boundary that float32 decides: far fewer than one in ten thousand.
    assert abs(flipped - eta) < 4 * np.sqrt(eta * (1 - eta) / n) + 1e-4


def test_classes_are_even_and_no_linear_rule_is_good():
    X, y = Law().rows(0, 100_000)
    assert abs(y.mean() - 0.5) < 0.01
    coef, *_ = np.linalg.lstsq(X[:50_000], 2.0 * y[:50_000] - 1, rcond=None)
    assert np.mean((X[50_000:] @ coef > 0) == y[50_000:]) < 0.65


def test_a_quadratic_rule_on_the_signal_is_much_better():
    law = Law()
    X, y = law.rows(0, 100_000)
    u = (X @ np.linalg.inv(law.mixing()))[:, :SIGNAL]
    features = np.column_stack([u, *(u[:, i] * u[:, j] for i in range(SIGNAL) for j in range(i, SIGNAL))])
    coef, *_ = np.linalg.lstsq(features[:50_000], 2.0 * y[:50_000] - 1, rcond=None)
    assert np.mean((features[50_000:] @ coef > 0) == y[50_000:]) > 0.8


def test_parquet_layout_and_sidecar(tmp_path):
    printed = command("--rows", 2500, "--features", 11, "--chunk-rows", 500, "--files", 2, "--out", tmp_path / "d")
    paths = sorted((tmp_path / "d").glob("*.parquet"))
    groups = [pq.ParquetFile(path).metadata for path in paths]
    assert [meta.num_rows for meta in groups] == [1500, 1000]
    assert [meta.num_row_groups for meta in groups] == [3, 2]
    schema = pq.read_schema(paths[0])
    assert schema.names == [*(f"x{i:02d}" for i in range(11)), "label"]
    assert {str(kind) for kind in schema.types} == {"float", "int8"}
    law = json.loads((tmp_path / "d" / "_law.json").read_text())
    assert law.items() <= printed.items()
    assert law["bayes_error"] == 0.1


READ = {"csv": lambda path: pyarrow.csv.read_csv(path).to_pandas().to_numpy().astype(np.float32), "npy": np.load}


@pytest.mark.parametrize("kind", READ)
def test_other_formats_give_the_same_numbers_with_the_label_last(kind, tmp_path):
    path = tmp_path / f"d.{kind}"
    command("--rows", 1200, "--features", 5, "--format", kind, "--out", path, "--chunk-rows", 500)
    stored, (X, y) = READ[kind](path), Law(features=5).rows(0, 1200)
    assert stored.dtype == np.float32
    assert np.array_equal(stored, np.column_stack([X, y]))


def test_what_is_there_is_not_made_again_and_what_is_missing_is(tmp_path):
    asked = ("--rows", 600, "--features", 5, "--chunk-rows", 200, "--files", 3, "--out", tmp_path / "d")
    assert command(*asked)["already_there"] is False
    assert command(*asked)["already_there"] is True
    (tmp_path / "d" / "part-00001.parquet").unlink()
    assert command(*asked)["already_there"] is False
    assert command(*asked, "--seed", 1)["already_there"] is False
    assert np.array_equal(rows_of(tmp_path / "d")[0], Law(seed=1, features=5).rows(0, 600)[0])


@pytest.mark.parametrize("option", [("--rows", 0), ("--features", 3), ("--noise", 0.5), ("--first-row", -1)])
def test_options_that_mean_nothing_are_refused(option, tmp_path, capsys):
    with pytest.raises(SystemExit) as stopped:
        make_data.main(["--out", str(tmp_path / "d"), *map(str, option)])
    assert stopped.value.code == 2
    assert option[0].lstrip("-") in capsys.readouterr().err
    assert not (tmp_path / "d").exists()
