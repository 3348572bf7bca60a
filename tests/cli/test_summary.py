"""The lines that a fit prints: the result, what to check, and on request the choices."""

import numpy as np
import pandas as pd
import pytest

KNOWN = ["--kernel", "gaussian", "--n-components", 32, "--local", "none", "--solver", "psgd", "--alpha", 1e-2]


@pytest.fixture
def rows(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(size=400), "id": np.arange(400), "c": 1.0})
    table.assign(y=np.where(table["a"] + rng.normal(size=400) > 0, "yes", "no")).to_parquet(tmp_path / "rows.parquet")
    return tmp_path / "rows.parquet"


def printed(run_to, *args):
    lines = run_to("train", *args, "--progress", "none").stdout.splitlines()
    names = [line if line.endswith(":") else line.split("  ")[1] for line in lines[1:]]
    return lines, names


def test_five_lines_of_result_then_what_to_check(run_to, rows, tmp_path):
    lines, names = printed(run_to, rows, "--label", "y", "--out", tmp_path / "m", *KNOWN)
    assert ": 400 rows in" in lines[0]
    assert "peak memory" in lines[0]
    assert names == ["model", "error", "compare", "Check:", "constant", "row numbers"]
    assert lines[1] == "  model        32 components of a Gaussian kernel"


def test_nothing_to_check_has_no_heading(run_to, rows, tmp_path):
    _, names = printed(run_to, rows, "--label", "y", "--out", tmp_path / "m", *KNOWN, "--exclude", "id,c")
    assert names == ["model", "error", "compare"]


def test_the_choices_come_last_with_verbose_and_are_on_the_page_of_show(run_to, rows, tmp_path):
    _, names = printed(run_to, rows, "--label", "y", "--out", tmp_path / "m", *KNOWN, "--verbose")
    made = names[names.index("Choices:") + 1 :]
    assert {"metric", "gamma"} <= set(made)
    assert names.index("Check:") < names.index("Choices:")
    assert "Choices" not in run_to("show", tmp_path / "m").stdout
    shown = run_to("show", tmp_path / "m", "--markdown").stdout.replace("\\", "")
    assert all(f"| {name} | " in shown for name in made)


def test_a_local_stage_stands_beside_its_kernel(run_to, rows, tmp_path):
    known = [*KNOWN[:4], "--local", "grids(n_grids=32)", "--exclude", "id,c"]
    lines, _ = printed(run_to, rows, "--label", "y", "--out", tmp_path / "m", *known)
    assert "32 components" in lines[1]
    kept = "none: " not in run_to("show", tmp_path / "m", "--markdown").stdout
    assert lines[1].endswith(" + 32 random grids of 1 columns") == kept
