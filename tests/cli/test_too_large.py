"""Rows that are finite and overflow in a model: bad rows with their place, in whatever is asked of them."""

import csv
import json
from contextlib import suppress

import numpy as np
import pandas as pd
import pytest

from dkernel import KernelClassifier, KernelRegressor
from dkernel.errors import DataError
from tests.combinations import every_two

KERNELS = {
    "polynomial": ("--kernel", "Polynomial(degree=3)"),
    "arc-cosine": ("--kernel", "ArcCosine(order=1)", "--features", "nystrom"),
    "laplacian": ("--kernel", "Laplacian(gamma=0.3)", "--features", "fourier"),
}


def frame(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)).astype(np.float32)
    return pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": np.where((X**2).sum(axis=1) > 1.4, "out", "in")})


@pytest.fixture(params=list(KERNELS))
def model(request, run_to, tmp_path):
    frame(600).to_parquet(tmp_path / "t.parquet")
    run_to("train", tmp_path / "t.parquet", "--label", "y", "--out", tmp_path / "m", "--n-components", 32, "--quiet",
        "--loss", "logistic", "--scale", "none", "--metric", "identity", *KERNELS[request.param])  # fmt: skip
    return tmp_path / "m"


def test_score_lists_them_and_evaluate_names_them(run_to, model, tmp_path):
    rows = frame(500, 1)
    rows["id"] = np.arange(500)
    good = rows.drop(index=[7, 400])
    rows.loc[[7, 400], "b"] = [3e38, -3e38]
    rows[["a", "b", "id"]].to_parquet(tmp_path / "new.parquet")
    text = rows[["a", "b", "id"]].to_csv(index=False).splitlines()
    text.insert(4, "?,1,2")
    (tmp_path / "new.csv").write_text("\n".join(text) + "\n")
    good[["a", "b", "id"]].to_parquet(tmp_path / "good.parquet")
    words = ("--write", "label,score,probability", "--keep", "id", "--quiet")
    run_to("score", model, tmp_path / "good.parquet", "--out", tmp_path / "good", *words)
    wanted = pd.read_parquet(tmp_path / "good")
    for name, bad in (("new.parquet", ["8", "401"]), ("new.csv", ["5", "10", "403"])):
        refused = run_to("score", model, tmp_path / name, "--out", tmp_path / "no.parquet", *words, code=65)
        assert name in refused.stderr
        told = run_to("score", model, tmp_path / name, "--out", tmp_path / "out.parquet", *words[:-1], "--json",
                   "--max-bad-rows", 3, "--overwrite")  # fmt: skip
        with open(json.loads(told.stdout)["rejects"], newline="") as stream:
            listed = list(csv.DictReader(stream))
        assert [row["line"] for row in listed] == bad
        assert [row["column"] for row in listed][-2:] == ["b", "b"]
        assert all("too large for this model" in row["reason"] for row in listed[-2:])
        assert pd.read_parquet(tmp_path / "out.parquet").equals(wanted)
    rows[["a", "b", "y"]].to_parquet(tmp_path / "labelled.parquet")
    told = run_to("evaluate", model, tmp_path / "labelled.parquet", "--label", "y", code=65)
    assert "labelled.parquet, row 8" in told.stderr
    assert "too large for this model" in told.stderr


@pytest.mark.parametrize("kernel", ["ArcCosine(order=1)"])
def test_the_estimators_name_the_row(kernel):
    rows = frame(600)
    X, y = rows[["a", "b"]].to_numpy(), rows["y"].to_numpy()
    far = np.concatenate([X] * 20)
    far[11_000, 1] = 3e38
    settings = {"n_components": 32, "scale": "none", "metric": "identity", "features": "nystrom"}
    machine = KernelClassifier(kernel, loss="logistic", **settings).fit(X, y)
    for ask in (machine.predict, machine.decision_function, machine.predict_proba):
        with pytest.raises(DataError, match=r"X, row 11000: .*too large for this model"):
            ask(far)
    with pytest.raises(DataError, match="X, row 11000"):
        KernelRegressor(kernel, **settings).fit(X, 10 * X[:, 1]).predict(far)


@pytest.mark.parametrize("kernel", ["polynomial", "linear"])
def test_what_float64_holds_is_answered(kernel):
    rows = frame(600)
    X = rows[["a", "b"]].to_numpy()
    far = np.array([[0.0, 3e38]], np.float32)
    machine = KernelRegressor(kernel, n_components=32, scale="none", metric="identity", features="nystrom")
    assert np.isfinite(machine.fit(X, X[:, 0]).predict(far)).all()


@pytest.mark.parametrize(
    ("solver", "kernel", "big"),
    every_two(["auto", "psgd"], ["Polynomial(degree=40)", "polynomial", "laplacian", "gaussian"], [3e38, 1e20]),
)
def test_a_refusal_comes_without_warnings_of_numpy(kernel, solver, big, recwarn):
    X = np.random.default_rng(0).normal(size=(2000, 3))
    y = X[:, 0] > 0
    X[5, 1] = big
    with suppress(DataError):
        KernelClassifier(kernel, scale="none", solver=solver, n_components=64, random_state=0).fit(X, y)
    assert [str(found.message) for found in recwarn if issubclass(found.category, RuntimeWarning)] == []
