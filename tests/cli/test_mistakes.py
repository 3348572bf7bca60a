"""What users do that was not meant, or that a program should foresee: what they are told, and what still works."""

from functools import partial

import numpy as np
import pandas as pd
import pytest

import dkernel
from dkernel.errors import DataError

FIXED = ["--kernel", "gaussian", "--gamma", "0.5", "--n-components", "32", "--alpha", "1e-4", "--metric", "identity"]
FIXED += ["--solver", "psgd", "--baselines", "off"]


def table(n=400, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"a": rng.normal(size=n), "b": rng.normal(size=n), "id": np.arange(n), "w": rng.random(n) + 1})
    return frame.assign(y=np.where(frame["a"] * frame["b"] > 0, "yes", "no"))


@pytest.fixture
def there(here):
    frame = table()
    frame.to_parquet(here / "t.parquet", index=False)
    return frame


@pytest.fixture
def train(run_to):
    return partial(run_to, "train", "--label", "y", "--out", "m", "--overwrite", *FIXED)


@pytest.mark.usefixtures("there")
def test_the_file_of_the_training_is_scored_and_evaluated_as_it_is(run_to, train):
    train("t.parquet", "--exclude", "id", "--weight", "w", "--quiet")
    run_to("score", "m", "t.parquet", "--out", "s.parquet", "--quiet")
    run_to("evaluate", "m", "t.parquet", "--quiet")
    table().assign(new=1.0).to_parquet("more.parquet")
    said = run_to("score", "m", "more.parquet", "--out", "s2.parquet", code=65)
    assert "'new'" in said.stderr
    assert "--exclude COLUMN, or pass over all such columns with --allow-extra" in said.stderr
    source = dkernel.open_source("t.parquet", label="y", exclude="id", weight="w")
    machine = dkernel.KernelClassifier("gaussian", gamma=0.5, n_components=32, alpha=1e-4, metric="identity")
    assert machine.fit(source).model_.known_columns == ("y", "id", "w")


@pytest.mark.usefixtures("there")
@pytest.mark.parametrize("name", ["o.pq", "o.parq"])
def test_short_names_of_parquet_are_files(run_to, train, tmp_path, name):
    train("t.parquet", "--quiet")
    run_to("score", "m", "t.parquet", "--out", name, "--quiet")
    assert (tmp_path / name).is_file()
    assert len(pd.read_parquet(name)) == 400


@pytest.mark.usefixtures("here")
def test_a_variable_names_the_command_whose_output_it_is(run_to):
    def settings(command, **variables):
        return run_to(command, "m", "t.parquet", "--print-config", **variables).stdout

    assert "zzz" not in settings("score", DKERNEL_OUT="zzz")
    assert 'out = "zzz"' in settings("score", DKERNEL_SCORE_OUT="zzz")
    assert "zzz" not in settings("train", DKERNEL_SCORE_OUT="zzz")
    assert "seed = 7" in settings("train", DKERNEL_SEED="7")
    assert "seed = 8" in settings("train", DKERNEL_SEED="7", DKERNEL_TRAIN_SEED="8")


@pytest.mark.usefixtures("there")
@pytest.mark.parametrize("more", [[], ["--dry-run"]])
def test_a_limit_in_which_no_worker_starts_is_refused_before_one_does(run_to, more):
    said = run_to(
        "train", "t.parquet", "--label", "y", "--out", "m", "--workers", "2", "--memory-limit", "200MB", *more, code=1
    )
    assert "--memory-limit 200MB: a worker process takes 340MiB" in said.stderr
    assert "Give more than --memory-limit 340MiB" in said.stderr


@pytest.mark.usefixtures("there")
def test_the_limit_that_is_advised_can_be_pasted(train):
    said = train("t.parquet", "--memory-limit", "20MB", code=1).stderr
    (advised,) = [word for word in said.replace(",", " ").split() if word.endswith("MiB") and word[0].isdigit()]
    train("t.parquet", "--memory-limit", advised, "--quiet")


@pytest.mark.usefixtures("there")
def test_a_solver_that_was_stopped_says_so(train):
    said = train("t.parquet", "--loss", "logistic", "--solver", "lbfgs", "--passes", "2").stdout
    assert "not fully converged in 2 passes: scores may change by" in said
    assert "; for more: --passes 4" in said
    said = train("t.parquet", "--exclude", "id,w", "--solver", "psgd", "--polish", "1", "--alpha", "1e-9").stdout
    assert "solver       not fully converged in 1 passes: scores may change by" in said
    assert "; for more: --polish 2" in said
    machine = dkernel.KernelClassifier("gaussian", gamma=0.5, n_components=32, alpha=1e-9, metric="identity", polish=1)
    machine = machine.set_params(solver="psgd").fit(table()[["a", "b"]], table()["y"])
    ends = {fitted.chosen_["solver"] for fitted in (machine, dkernel.load("m"))}
    assert all(end.startswith("not fully converged in 1 passes") for end in ends)


def test_an_address_without_its_package_names_the_extra(monkeypatch):
    import fsspec

    def missing(*_, **__):
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr(fsspec.core, "url_to_fs", missing)
    with pytest.raises(DataError, match=r"Install s3fs to access S3\). pip install s3fs"):
        dkernel.open_source("s3://bucket/t.parquet")


def test_an_address_that_lacks_something_is_no_crash(monkeypatch):
    import fsspec

    def refused(*_):
        raise RuntimeError("Unable to locate credentials")

    memory = fsspec.filesystem("memory")
    monkeypatch.setattr(type(memory), "isdir", refused)
    with pytest.raises(DataError, match=r"cannot be read \(RuntimeError: Unable to locate credentials\)"):
        dkernel.open_source("memory://bucket/t.parquet")
