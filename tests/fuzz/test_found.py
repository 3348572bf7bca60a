"""What the fuzzers found, each as a plain test."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import dkernel
import tests.kernels.catalogue  # noqa: F401 - registers a kernel that is none
from dkernel import FunctionKernel, KernelClassifier
from dkernel.cli import main
from dkernel.errors import DataError, DKernelError
from tests.fuzz import datasets
from tests.fuzz.faces import check_faces
from tests.streaming.sources import rings

ROWS = np.random.default_rng(0).standard_normal((300, 4)).astype(np.float32)


@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_a_tensor_sketch_of_waves_alone_is_their_fourier_map(scale):
    """A product whose factors all have a spectral law has one; the search for a sketch of it had no end."""
    y = np.sin(2 * ROWS[:, 0]) > 0
    kernel = f"{scale} * Gaussian(gamma=0.1) * Laplacian(gamma=0.2)"
    fits = [
        KernelClassifier(kernel, features=features, n_components=64, alpha=1e-6, metric="identity").fit(ROWS, y)
        for features in ("tensorsketch", "random")
    ]
    sketched, drawn = (fit.decision_function(ROWS) for fit in fits)
    np.testing.assert_array_equal(sketched, drawn)


@pytest.fixture
def model(tmp_path):
    """The file of a model of x and y, beside rows.parquet and a folder."""
    pq.write_table(pa.table({"x": ROWS[:, 0], "y": ROWS[:, 1], "label": ROWS[:, 0] > 0}), tmp_path / "rows.parquet")
    (tmp_path / "folder").mkdir()
    source = dkernel.open_source(str(tmp_path / "rows.parquet"), label="label")
    machine = KernelClassifier("gaussian", gamma=0.5, n_components=8, alpha=1e-4, metric="identity").fit(source)
    dkernel.save(machine.model_, tmp_path / "m")
    return tmp_path / "m"


@pytest.mark.parametrize(
    "command",
    [
        "export m --out folder",
        "evaluate m rows.parquet --record folder",
        "score m rows.parquet --out s.csv --record folder",
        "train rows.parquet --label label --out n --record folder",
    ],
)
def test_a_folder_where_a_file_is_written_is_refused_at_the_start(command, model, monkeypatch):
    """The record of a command that was done was nowhere, and an export ended with 1 after its work."""
    monkeypatch.chdir(model.parent)
    before = sorted(model.parent.rglob("*"))
    result = CliRunner().invoke(main, command.split())
    assert result.exit_code == 65, result.output
    assert "this is a folder" in result.stderr
    assert sorted(model.parent.rglob("*")) == before


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.binary(2), pa.binary_view()], ids=str)
def test_kept_bytes_that_are_no_text_are_refused_for_csv_by_name(kind, model, monkeypatch):
    monkeypatch.chdir(model.parent)
    table = pq.read_table("rows.parquet").drop_columns("label")
    for name, value in (("text", b"ab"), ("odd", b"\xff\x00")):
        pq.write_table(table.append_column("bytes", pa.array([value] * len(ROWS), kind)), f"{name}.parquet")
    score = ["score", "m", "text.parquet", "--keep", "bytes", "--out"]
    assert CliRunner().invoke(main, [*score, "s.csv"]).exit_code == 0
    assert (model.parent / "s.csv").read_text().splitlines()[1].startswith('"ab",')
    score[2] = "odd.parquet"
    result = CliRunner().invoke(main, [*score, "odd.csv"])
    assert (result.exit_code, "'bytes' holds bytes" in result.stderr) == (65, True), result.output
    assert CliRunner().invoke(main, [*score, "odd.parquet-out"]).exit_code == 0


def test_a_checkpoint_by_a_link_to_nothing_is_refused_at_the_start(model, monkeypatch):
    """It ended with 75, the same command can be run again, which helps nobody."""
    monkeypatch.chdir(model.parent)
    (model.parent / "link").symlink_to("nothing")
    result = CliRunner().invoke(main, ["train", "rows.parquet", "--label=label", "--out=n", "--checkpoint=link"])
    assert (result.exit_code, "link to a folder" in result.stderr) == (65, True), result.output


def test_a_real_data_set_that_is_missing_is_a_failure(tmp_path, monkeypatch):
    """It was passed over, so that a session without data said that nothing had failed."""
    monkeypatch.setattr(datasets, "REAL", tmp_path)
    with pytest.raises(FileNotFoundError, match="banana"):
        datasets.dataset("banana", 100, "none", "as they are", 0)


@pytest.mark.parametrize("size", [1e8, 1e12])
def test_products_of_columns_that_overflow_on_rows_unseen_are_refused(size):
    """It ended with LinAlgError: the sums of the sample were finite in float64, those of a round were not."""
    X = np.random.default_rng(0).normal(size=(1500, 3)) * [1, 1, size]
    machine = KernelClassifier("polynomial", scale="none", solver="psgd", n_components=16, random_state=0)
    with pytest.raises(DataError, match="overflows: its products of columns"):
        machine.fit(X, (X[:, :2] ** 2).sum(axis=1) > 1.4)


def test_probabilities_are_those_of_scores_that_are_rounded():
    """A sigmoid moved further than the bound of the scores, without AVX-512."""
    X, y = rings(5150, classes=26)
    settings = {"n_components": 100, "alpha": 1e-9, "local": "none", "solver": "psgd", "metric": "identity"}
    machine = KernelClassifier("ProductCauchy(length=5)", scale="none", calibration="temperature", **settings)
    machine.fit(X[:5000], y[:5000])
    assert not machine.model_.is_wide
    check_faces(machine, machine, pd.DataFrame(X[5000:]))


@pytest.mark.parametrize("landmarks", ["uniform", "stratified", "kmeans", "leverage", "rpcholesky"])
@pytest.mark.parametrize("solver", ["auto", "psgd"])
def test_every_solver_refuses_a_function_that_is_no_kernel(landmarks, solver):
    """Pivots were drawn with negative probabilities, and an exact fit had a loss of 1e19."""
    machine = KernelClassifier(
        FunctionKernel("tests: sum of minima"), landmarks=landmarks, solver=solver, n_components=50, alpha=1e-6
    )
    with pytest.raises(ValueError, match=r"is not a kernel|not positive semi-definite") as refused:
        machine.fit(ROWS, ROWS[:, 0] > 0)
    assert isinstance(refused.value, DKernelError)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_holdout_that_leaves_one_row_is_named(weighted, tmp_path):
    """It said that a kernel was given no landmarks."""
    rows = {"x": np.arange(300.0), "label": np.arange(300) % 2, "w": np.where(np.arange(300) < 10, 1.0, 0.0)}
    n = 300 if weighted else 10
    pq.write_table(pa.table({name: values[:n] for name, values in rows.items()}), tmp_path / "t.parquet")
    asked = ["train", str(tmp_path / "t.parquet"), "--label", "label", "--holdout", "0.9", "--out", str(tmp_path / "m")]
    result = CliRunner().invoke(main, [*asked, *(["--weight", "w"] if weighted else ["--exclude", "w"])])
    assert result.exit_code == 65, result.output
    assert "--holdout 0.9 keeps 9 of the 10 rows" in result.stderr


def test_a_label_of_rows_of_weight_0_may_be_unknown_to_the_model(tmp_path, monkeypatch):
    """`evaluate --weight` refused a label that only such rows had, in the very file of the training."""
    monkeypatch.chdir(tmp_path)
    y = np.array(["a", "b", "c"])[np.arange(300) % 3]
    weight = (y != "c").astype(float)
    pq.write_table(pa.table({"x": ROWS[:, 0], "z": ROWS[:, 1], "label": y, "w": weight}), "t.parquet")
    asked = ["t.parquet", "--label", "label", "--weight", "w"]
    fit = ["--kernel", "Gaussian(gamma=1)", "--n-components", "16", "--out", "m", "--quiet"]
    assert CliRunner().invoke(main, ["train", *asked, *fit]).exit_code == 0
    result = CliRunner().invoke(main, ["evaluate", "m", *asked, "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["n"] == 200
