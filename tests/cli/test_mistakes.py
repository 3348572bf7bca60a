"""What users do that was not meant, or that a program should foresee: what they are told, and what still works."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest

import dkernel
from dkernel.errors import DataError, ModelFileError

FIXED = ["--kernel", "gaussian", "--gamma", "0.5", "--n-components", "32", "--alpha", "1e-4", "--metric", "identity"]
FIXED += ["--solver", "psgd", "--baselines", "off"]


def table(n=400, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"a": rng.normal(size=n), "b": rng.normal(size=n), "id": np.arange(n), "w": rng.random(n) + 1})
    return frame.assign(y=np.where(frame["a"] * frame["b"] > 0, "yes", "no"))


@pytest.fixture
def there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = table()
    frame.to_parquet("t.parquet", index=False)
    return frame


@pytest.fixture
def train(run):
    def call(*more, code=0):
        result = run("train", "--label", "y", "--out", "m", "--overwrite", *FIXED, *more)
        assert result.exit_code == code, result.output
        return result

    return call


@pytest.mark.usefixtures("there")
def test_the_file_of_the_training_is_scored_and_evaluated_as_it_is(run, train):
    train("t.parquet", "--exclude", "id", "--weight", "w", "--quiet")
    assert run("score", "m", "t.parquet", "--out", "s.parquet", "--quiet").exit_code == 0
    assert run("evaluate", "m", "t.parquet", "--quiet").exit_code == 0
    table().assign(new=1.0).to_parquet("more.parquet")
    said = run("score", "m", "more.parquet", "--out", "s2.parquet")
    assert said.exit_code == 65
    assert "'new'" in said.stderr
    assert "--exclude, or pass over all such columns with --allow-extra" in said.stderr
    source = dkernel.open_source("t.parquet", label="y", exclude="id", weight="w")
    machine = dkernel.KernelClassifier("gaussian", gamma=0.5, n_components=32, alpha=1e-4, metric="identity")
    assert machine.fit(source).model_.known_columns == ("y", "id", "w")


@pytest.mark.usefixtures("there")
@pytest.mark.parametrize("name", ["o.pq", "o.parq"])
def test_short_names_of_parquet_are_files(run, train, tmp_path, name):
    train("t.parquet", "--quiet")
    assert run("score", "m", "t.parquet", "--out", name, "--quiet").exit_code == 0
    assert (tmp_path / name).is_file()
    assert len(pd.read_parquet(name)) == 400


@pytest.mark.usefixtures("there")
@pytest.mark.parametrize("name", ["o.tsv", "o.txt", "o.feather", "o.json", "o.csv.gz"])
def test_names_of_other_formats_make_no_folder(run, train, tmp_path, name):
    train("t.parquet", "--quiet")
    said = run("score", "m", "t.parquet", "--out", name)
    assert said.exit_code == 2
    assert "files are not written. Choose a name that ends in .parquet" in said.stderr
    assert not (tmp_path / name).exists()


@pytest.mark.usefixtures("there")
def test_a_complete_output_of_another_job_names_the_option(run, train):
    train("t.parquet", "--quiet")
    assert run("score", "m", "t.parquet", "--out", "s", "--quiet").exit_code == 0
    said = run("score", "m", "t.parquet", "--out", "s", "--keep", "id")
    assert said.exit_code == 65
    assert "--overwrite" in said.stderr


def test_a_variable_names_the_command_whose_output_it_is(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def settings(command, **variables):
        return run(command, "m", "t.parquet", "--print-config", **variables).stdout

    assert "zzz" not in settings("score", DKERNEL_OUT="zzz")
    assert 'out = "zzz"' in settings("score", DKERNEL_SCORE_OUT="zzz")
    assert "zzz" not in settings("train", DKERNEL_SCORE_OUT="zzz")
    assert "patience = 0" in settings("train", DKERNEL_PATIENCE="7")
    assert "patience = 7" in settings("train", DKERNEL_TRAIN_PATIENCE="7")
    assert "seed = 7" in settings("train", DKERNEL_SEED="7")
    assert "seed = 8" in settings("train", DKERNEL_SEED="7", DKERNEL_TRAIN_SEED="8")


@pytest.mark.usefixtures("there")
@pytest.mark.parametrize("more", [[], ["--dry-run"]])
def test_a_limit_in_which_no_worker_starts_is_refused_before_one_does(run, more):
    said = run("train", "t.parquet", "--label", "y", "--out", "m", "--workers", "2", "--memory-limit", "200MB", *more)
    assert said.exit_code == 1
    assert "--memory-limit 200MB: a worker process takes 340MiB" in said.stderr
    assert "Give more than --memory-limit 340MiB" in said.stderr


@pytest.mark.usefixtures("there")
def test_the_limit_that_is_advised_can_be_pasted(train):
    said = train("t.parquet", "--memory-limit", "20MB", code=1).stderr
    (advised,) = [word for word in said.replace(",", " ").split() if word.endswith("MiB") and word[0].isdigit()]
    assert train("t.parquet", "--memory-limit", advised, "--quiet").exit_code == 0


def test_doctor_needs_nothing_that_its_help_calls_required(run):
    assert "[required]" not in run("doctor", "--help").stdout


@pytest.mark.usefixtures("there")
@pytest.mark.parametrize(
    ("values", "words"),
    [([[1, 2]], "make columns of numbers or text of its parts"), ([b"\xff"], "store it as text or numbers")],
)
def test_the_advice_of_a_refused_column_helps(train, there, values, words):
    there.assign(v=values * len(there)).to_parquet("odd.parquet")
    said = train("odd.parquet", code=65).stderr
    assert words in said
    train("odd.parquet", "--exclude", "v", "--quiet")


@pytest.mark.usefixtures("there")
def test_a_label_of_another_case_is_meant(run):
    assert "Did you mean 'y'?" in run("train", "t.parquet", "--label", "Y", "--out", "m").stderr


@pytest.mark.usefixtures("there")
def test_classes_count_alike_on_request(train):
    train("t.parquet", "--class-weight", "balanced", "--quiet")
    assert dkernel.load("m").model_.recipe.class_weight == "balanced"


@pytest.mark.usefixtures("there")
def test_a_solver_that_was_stopped_says_so(train):
    said = train("t.parquet", "--loss", "logistic", "--solver", "lbfgs", "--passes", "2").stdout
    assert "stopped after 2 passes, not fully converged: scores would still change by about" in said
    assert "; more: --passes 4" in said
    said = train("t.parquet", "--exclude", "id,w", "--solver", "psgd", "--polish", "1", "--alpha", "1e-9").stdout
    assert "solver       stopped after 1 passes, not fully converged: scores would still change by about" in said
    assert "; more: --polish 2" in said
    machine = dkernel.KernelClassifier("gaussian", gamma=0.5, n_components=32, alpha=1e-9, metric="identity", polish=1)
    machine = machine.set_params(solver="psgd").fit(table()[["a", "b"]], table()["y"])
    ends = {fitted.chosen_["solver"] for fitted in (machine, dkernel.load("m"))}
    assert all(end.startswith("stopped after 1 passes, not fully converged") for end in ends)


def test_what_cannot_be_saved_names_what_can(tmp_path):
    machine = dkernel.KernelPCA().fit(table()[["a", "b"]].to_numpy())
    with pytest.raises(ModelFileError, match="A Model can, and a fitted KernelClassifier, KernelRegressor"):
        dkernel.save(machine, tmp_path / "m")


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


def test_it_warns_of_rare_classes_constant_features_and_copied_labels(train, there):
    there.loc[7, "y"] = "rare"
    there["level"] = 3.0
    there["same"] = there["y"].map({"no": 5.0, "yes": 1.5, "rare": 9.0})
    there["text"] = there["y"].map({"no": "n", "yes": "y", "rare": "r"})
    there.to_parquet("odd.parquet")
    said = train("odd.parquet").stdout
    assert "rare classes 'rare': one row each" in said
    assert "constant     level: one value in all rows" in said
    assert "copies       same, text: on 400 rows these say the label exactly" in said
    clean = train("t.parquet").stdout
    assert not any(word in clean for word in ("rare classes", "constant ", "copies"))


def test_a_copied_number_is_told_of(run, there):
    there["price"] = there["a"] ** 3
    there["euros"] = 0.9 * there["price"] + 2
    there.drop(columns="y").to_parquet("odd.parquet")
    said = run("train", "odd.parquet", "--label", "price", "--out", "m", *FIXED).stdout
    assert "copies       euros: on 400 rows" in said


@pytest.mark.usefixtures("there")
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_a_model_of_the_command_predicts_frames_lists_and_collections(train):
    import dask.dataframe as dd

    train("t.parquet", "--exclude", "id,w", "--quiet")
    machine, X = dkernel.load("m"), table()[["a", "b"]]
    expected = machine.predict(X)
    assert machine.predict(X.to_numpy().tolist()).tolist() == expected.tolist()
    lazy = machine.predict(dd.from_pandas(X, npartitions=3))
    assert hasattr(lazy, "dask")
    assert np.asarray(lazy.compute()).tolist() == expected.tolist()
    assert machine.score(X, table()["y"]) > 0.8


@pytest.mark.usefixtures("there")
def test_folders_in_a_folder_are_read_or_named(train, tmp_path):
    for year in ("2020", "2021"):
        (tmp_path / "hive" / f"year={year}").mkdir(parents=True)
        shutil.copy("t.parquet", tmp_path / "hive" / f"year={year}" / "part.0.parquet")
    assert "year 2" in train("hive", "--exclude", "id,w").stdout
    (tmp_path / "hive" / "other").mkdir()
    assert "the folder holds folders" in train("hive", code=65).stderr


@pytest.mark.usefixtures("there")
def test_show_knows_what_was_passed_over(run, train):
    train("t.parquet", "--exclude", "id", "--quiet")
    assert json.loads(run("show", "m", "--json").stdout)["facts"]["passed_over"] == ["id"]


@pytest.mark.usefixtures("there")
@pytest.mark.parametrize("names", [["0", "1"], ["01", "1"], ["1.0", "true"], ["2024-01-01", "7"]])
def test_labels_of_text_are_text_in_a_csv_too(run, train, names):
    frame = table()
    frame["y"] = np.where(frame["y"] == "yes", *names)
    frame.to_parquet("text.parquet", index=False)
    frame.to_csv("text.csv", index=False)
    train("text.parquet", "--exclude", "id,w", "--quiet")
    one, other = (run("evaluate", "m", file, "--json") for file in ("text.parquet", "text.csv"))
    assert (one.exit_code, other.exit_code) == (0, 0), other.output
    assert json.loads(one.stdout) == json.loads(other.stdout)
    frame.assign(y=frame["y"].replace(names[1], "unseen")).to_csv("other.csv", index=False)
    said = run("evaluate", "m", "other.csv")
    assert said.exit_code == 65
    assert "'unseen'" in said.stderr
