import json
import tomllib

import pytest
from click.testing import CliRunner

from dkernel import KernelClassifier, KernelRegressor
from dkernel.cli import main
from dkernel.cli.train import RECIPE, make_recipe
from dkernel.model.recipe import Recipe

SEARCH = [name for name in main.list_commands(None) if name == "tune"]  # a leaf


def run(*args, **env):
    return CliRunner().invoke(main, [str(a) for a in args], env={name: str(value) for name, value in env.items()})


def settings(*args, command="train", **env):
    """What --print-config says of these flags and variables."""
    result = run(command, *args, "--print-config", **env)
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    return tomllib.loads(result.stdout)


@pytest.fixture
def config(tmp_path):
    def write(text):
        path = tmp_path / "run.toml"
        path.write_text(text)
        return path

    return write


def test_defaults_are_those_of_the_recipe():
    found = settings()
    recipe = {name: getattr(Recipe(), name) for name in RECIPE} | {"loss": None}  # the label decides it
    recipe |= {"solver": "auto"}  # the rows decide
    assert {name: found.get(name) for name in RECIPE} == recipe | {"dtype": None}  # so do the first rows


@pytest.mark.parametrize("machine", [KernelClassifier, KernelRegressor])
def test_with_nothing_given_command_and_estimator_make_the_same_recipe(machine):
    values = dict.fromkeys(RECIPE) | ({"task": "regress"} if machine is KernelRegressor else {"task": "classify"})
    assert machine(random_state=0)._recipe() == make_recipe(values)


def test_settings_of_the_local_stage_are_one_value(config):
    text = "cells(rows=200, overlap=0.25)"
    assert settings("--local", text)["local"] == settings(DKERNEL_LOCAL=text)["local"] == text
    assert settings("--config", config(f'local = "{text}"'))["local"] == text
    assert settings("--local", "grids( n_grids = auto )")["local"] == "grids"


@pytest.mark.parametrize("option", ["seed", "n_components", "workers", "passes"])
def test_flag_beats_variable_beats_file_beats_default(option, config):
    flag, variable, path = f"--{option.replace('_', '-')}", f"DKERNEL_{option.upper()}", config(f"{option} = 3")
    default = settings().get(option)
    assert default != 3
    assert settings("--config", path)[option] == 3
    assert settings("--config", path, **{variable: 4})[option] == 4
    assert settings("--config", path, flag, 5, **{variable: 4})[option] == 5
    assert settings(flag, 5, **{variable: 4})[option] == 5
    assert settings("--config", path, flag, 5)[option] == 5
    assert settings(**{variable: 4})[option] == 4


def test_print_config_reads_back(config):
    first = run("train", "x é.csv", "--label", 'a"b\n', "--seed", "7", "--gamma", "1e-7", "--print-config").stdout
    assert run("train", "--config", config(first), "--print-config").stdout == first


@pytest.mark.parametrize("command", ["train", *SEARCH])
def test_print_config_leaves_to_the_data_what_they_decide(command):
    first = run(command, "x.csv", "--label", "y", "--print-config").stdout
    for name in ("dtype", "loss"):
        assert f"# {name} =" in first.splitlines()
    assert 'dtype = "float32"' in run(command, "x.csv", "--label", "y", "--dtype", "float32", "--print-config").stdout


def test_variable_names_the_config(config):
    assert settings(DKERNEL_CONFIG=config("seed = 9"))["seed"] == 9


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("n_componets = 3", ["'n_componets'", "Did you mean 'n_components'?"]),
        ("colour = 'x'", ["unknown key 'colour'"]),
        ("[train]\nseed = 1", ["unknown key 'train'"]),
        ("config = 'other.toml'", ["unknown key 'config'"]),
        ("seed = ", ["is not TOML"]),
        ("label = ['a']", ["label = ['a']"]),
        ("workers = 'two'", ["two"]),
        ("json = 'maybe'", ["maybe"]),
    ],
)
def test_bad_config_is_refused(text, words, config):
    result = run("train", "--config", config(text), "--print-config")
    assert result.exit_code == 2
    for word in words:
        assert word in result.stderr
    assert result.stdout == ""


TRAIN = "train x.csv --label y --out m"
WRONG = {  # command -> words of the answer
    "trian": "Did you mean 'train'?",
    "train x.csv --out m": "--label",
    "train x.csv --label y": "--out",
    "train --label y --out m": "DATA",
    "train --config none.toml": "none.toml",
    f"{TRAIN} --task regress --loss hinge": "Use --loss squared",
    f"{TRAIN} --workers 0": "--workers",
    f"{TRAIN} --memory-limit much": "2GiB",
    f"{TRAIN} --progress dots": "--progress",
    f"{TRAIN} --workers 2 --scheduler tcp://h:1": "--scheduler and --workers",
    "score m x.csv": "--out",
    "score": "MODEL",
    "evaluate m": "DATA",
    "show": "MODEL",
}


@pytest.mark.parametrize("command", WRONG)
def test_wrong_options_exit_2_and_say_which(command, here):
    result = run(*command.split())
    assert result.exit_code == 2, result.output
    assert WRONG[command] in result.stderr
    assert result.stdout == ""
    assert list(here.iterdir()) == []


def test_a_regression_has_the_squared_loss():
    assert settings("--task", "regress")["loss"] == "squared"
    assert settings("--task", "classify")["loss"] == "auto"
    assert settings("--loss", "hinge")["loss"] == "hinge"


def test_help_and_version():
    assert "train" in run("--help").stdout
    assert run("--version").stdout.startswith("dkernel ")


def test_indices_of_svmlight_files_are_what_they_are_said_to_be(tmp_path):
    file = tmp_path / "rows.svmlight"
    file.write_text("".join(f"{i % 2} 1:{i}.5 2:{(i * 7) % 5}\n" for i in range(40)))
    common = [str(file), "--label", "label", "--n-components", "8", "--gamma", "0.1", "--json"]
    for words, width in (([], 2), (["--n-features", "5"], 5)):
        result = run("train", *common, *words, "--out", str(tmp_path / "m"), "--dry-run")
        assert result.exit_code == 0, result.stderr
        assert json.loads(result.stdout)["p"] == width


@pytest.mark.parametrize("command", ["train", *SEARCH, "evaluate"])
def test_a_label_given_twice_is_refused(command):
    refused = run(command, "rows.csv", "--label", "a", "--label", "b")
    assert refused.exit_code == 2
    assert "--label is given 2 times, 'a', 'b': files have one label" in refused.output
    assert settings("rows.csv", "--label", "a b", command=command)["label"] == "a b"
    assert settings("rows.csv", command=command, DKERNEL_LABEL="a b")["label"] == "a b"


def test_names_given_one_by_one_are_all_taken(run_to, tmp_path):
    """The last of several --exclude was taken alone, and the others became features in silence."""
    (tmp_path / "t.csv").write_text("a,b,c,y\n" + "1,2,3,0\n2,1,3,1\n" * 9)
    said = run_to(
        "train", tmp_path / "t.csv", "--label", "y", "--exclude", "a", "--exclude", "b,c", "--dry-run", code=65
    )
    assert "column" in said.stderr
    said = run_to("train", tmp_path / "t.csv", "--label", "y", "--exclude", "a", "--exclude", "b", "--print-config")
    assert tomllib.loads(said.stdout)["exclude"] == ["a", "b"]
