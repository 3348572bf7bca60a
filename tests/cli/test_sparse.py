"""svmlight files of very many columns, from the command line: never dense, and the same as the rows in memory."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from sklearn.datasets import dump_svmlight_file

import dkernel
from dkernel import KernelClassifier
from dkernel.numerics.sparse_rows import RangeNames, SparseRows
from tests.estimators.wide import texts

FIT = ["--n-components", "48", "--gamma", "0.5", "--alpha", "1e-4", "--scale", "maxabs", "--metric", "identity"]
FIT += ["--kernel", "gaussian"]
P = 2**18


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("svm")
    X, y = texts(1200, P)
    for name, part in (("train", slice(1000)), ("new", slice(1000, None))):
        dump_svmlight_file(X[part], y[part], str(folder / f"{name}.svm"), zero_based=False)
    return folder, X, y


@pytest.fixture(scope="module")
def model(files, run_to):
    folder, *_ = files
    out = folder / "m"
    run_to("train", folder / "train.svm", "--label", "label", "--out", out, *FIT, "--n-features", P, "--json")
    return out


def test_a_fit_of_a_file_is_that_of_its_rows(model, files):
    _, X, y = files
    loaded = dkernel.load(model).model_
    assert loaded.columns == RangeNames(1, P)
    assert isinstance(loaded.map.landmarks, SparseRows)
    given = {"n_components": 48, "gamma": 0.5, "alpha": 1e-4, "scale": "maxabs", "metric": "identity"}
    machine = KernelClassifier("gaussian", **given).fit(X[:1000], y[:1000])
    np.testing.assert_allclose(loaded.scores(X)[:, 0], machine.decision_function(X), atol=1e-3)


def test_files_are_scored_and_evaluated(model, files, run_to, tmp_path):
    folder, X, y = files
    figures = json.loads(run_to("evaluate", model, folder / "new.svm", "--label", "label", "--json").stdout)
    loaded = dkernel.load(model).model_
    assert figures["accuracy"] == np.mean(loaded.predict(X[1000:]) == y[1000:]) > 0.9
    run_to("score", model, folder / "new.svm", "--out", tmp_path / "s.parquet", "--keep", "label",
                 "--write", "score")  # fmt: skip
    found = pq.read_table(tmp_path / "s.parquet")
    assert found["label"].to_pylist() == y[1000:].tolist()
    np.testing.assert_allclose(found["score"].to_numpy(), loaded.scores(X[1000:])[:, 0], atol=1e-5)


@pytest.mark.parametrize(("option", "message"), [
    (["--exclude", "7"], "exclude names the column '7'"),
    (["--weight", "8"], "weight names the column '8'"),
    (["--scale", "standard"], "--scale standard shifts the columns"),
])  # fmt: skip
def test_what_takes_single_columns_or_shifts_them_is_refused(files, run, tmp_path, option, message):
    few = tmp_path / "few.svm"
    few.write_text("\n".join((files[0] / "train.svm").read_text().splitlines()[:50]) + "\n")
    result = run("train", few, "--label", "label", "--out", tmp_path / "m", *FIT[:6], "--n-features", P, *option)
    assert result.exit_code in (65, 2)
    assert message in result.output


def test_a_model_says_what_it_is(model, run, run_to):
    shown = run("show", model)
    assert f"{P:,}, of sparse rows: 1 to {P}" in shown.output
    assert json.loads(run_to("show", model, "--json").stdout)["columns"] == {"first": 1, "n": P}
    refused = run("export", model, "--out", "x.onnx")
    assert "to_onnx takes columns of numbers" in refused.output
