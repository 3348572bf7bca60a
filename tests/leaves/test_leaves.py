"""The core works without any leaf, and names the one that is missing."""

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dkernel.errors import UnsupportedError
from dkernel.leaf_table import LEAVES, has_leaf, load_leaf
from tests.processes import environment
from tests.rooms import FILES, MODULES, PACKAGE, everywhere

LEAF_FOLDERS = sorted(path.name for path in (PACKAGE / "leaves").iterdir() if (path / "__init__.py").is_file())


def leaf_of(module):
    parts = module.split(".")
    return parts[2] if parts[:2] == ["dkernel", "leaves"] and len(parts) > 2 else None


def test_every_leaf_is_a_row_of_the_table():
    assert set(LEAF_FOLDERS) == {leaf for leaf in LEAVES if has_leaf(leaf)}


@pytest.mark.parametrize("left", [None, "__pycache__"])
def test_a_folder_without_its_package_is_no_leaf(left, tmp_path, monkeypatch):
    monkeypatch.setattr("dkernel.leaves.__path__", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, "dkernel.leaves.export", raising=False)
    if left:
        (tmp_path / "export" / left).mkdir(parents=True)
    with pytest.raises(UnsupportedError, match=r"^It: this installation .* folder leaves/export \(models as ONNX"):
        load_leaf("export", "onnx", "It")


@pytest.mark.parametrize("left", [{}, {"onnx": "from dkernel.leaves.export.graph import Graph"}])
def test_a_folder_without_a_module_is_named(left, tmp_path, monkeypatch):
    monkeypatch.setattr("dkernel.leaves.__path__", [str(tmp_path)])
    for name in [name for name in sys.modules if name.startswith("dkernel.leaves.export")]:
        monkeypatch.delitem(sys.modules, name)
    (tmp_path / "export").mkdir()
    for name, code in {"__init__": "", **left}.items():
        (tmp_path / "export" / f"{name}.py").write_text(code)
    with pytest.raises(UnsupportedError, match=r"^It: this installation .* without a part of its folder leaves/export"):
        load_leaf("export", "onnx", "It")


def test_no_leaf_imports_another():
    wrong = [
        f"{MODULES[module]}:{line}: imports {name}"
        for module in MODULES
        for name, line in everywhere(module)
        if leaf_of(module) and leaf_of(name) not in (None, leaf_of(module))
    ]
    assert wrong == []


def test_leaves_are_loaded_with_names_of_the_table():
    """A leaf and a module that `load_leaf` is given as texts are there."""
    wrong = []
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "load_leaf":
                leaf, module = (getattr(argument, "value", None) for argument in node.args[:2])
                absent = leaf in LEAVES and not has_leaf(leaf)
                if isinstance(leaf, str) and not absent and f"dkernel.leaves.{leaf}.{module}" not in MODULES:
                    wrong.append(f"{path}:{node.lineno}: {ast.unparse(node)}")
    assert wrong == []


# Trains, scores and loads without the leaves that are named, then asks for what they give.
WITHOUT = """
import sys
from importlib.machinery import PathFinder
from pathlib import Path

without = sys.argv[1:]

class Rest:
    @staticmethod
    def find_spec(name, path=None, target=None):
        hidden = any(f"{name}.".startswith(f"dkernel.leaves.{leaf}.") for leaf in without)
        return None if hidden else PathFinder.find_spec(name, path, target)

sys.meta_path = [Rest if finder is PathFinder else finder for finder in sys.meta_path]

import numpy as np
import pandas as pd
from click.testing import CliRunner

import dkernel
import dkernel.errors
from dkernel.cli import main
from dkernel.errors import UnsupportedError
from dkernel.features import map_from
from dkernel.leaf_table import LEAF_OF_KERNEL, LEAVES, has_leaf

dkernel.errors.LINE_LENGTH = 10**6  # sentences are whole lines

def run(*words):
    return CliRunner().invoke(main, words)

X = pd.DataFrame(np.random.default_rng(0).normal(size=(3100, 3)), columns=["a", "b", "c"])
y = (X.a * X.b > 0).astype(int)
X.assign(y=y).to_csv("rows.csv", index=False)
for words in (
    ("train", "rows.csv", "--label", "y", "--out", "m.safetensors"),
    ("score", "m.safetensors", "rows.csv", "--out", "s.csv"),
    ("evaluate", "m.safetensors", "rows.csv", "--label", "y"),
    ("show", "m.safetensors"),
):
    done = run(*words)
    assert done.exit_code == 0, done.output
    if words[0] == "train":
        for told in done.output, Path("m.safetensors.run.json").read_text():
            assert ("leaves/cells" in told) == ("cells" in without), told
assert (dkernel.load("m.safetensors").predict(X) == y).mean() > 0.8
assert dkernel.KernelRegressor().fit(X, X.a).score(X, X.a) > 0.9
assert [leaf for leaf in LEAVES if not has_leaf(leaf)] == without
listed = run("--help").output
for leaf in without:
    assert not [name for name in sys.modules if name.startswith(f"dkernel.leaves.{leaf}")]
    if word := LEAVES[leaf].stage:
        done = run("train", "rows.csv", "--label", "y", "--out", "other", "--local", word)
        assert done.exit_code in (1, 2) and f"leaves/{leaf} " in done.output, done.output
    for word in LEAVES[leaf].solvers:
        done = run("train", "rows.csv", "--label", "y", "--out", "other", "--solver", word, "--task", "regress")
        assert done.exit_code in (1, 2) and f"leaves/{leaf} " in done.output, done.output
    asked = {f"dkernel.{name}": (getattr, dkernel, name) for name in " ".join(LEAVES[leaf].names.values()).split()}
    asked |= {kind: (map_from, {"kind": kind}, {}) for kind in LEAVES[leaf].maps}
    asked |= {name: (dkernel.parse, name) for name, at, _ in LEAF_OF_KERNEL.values() if at == leaf}
    for name, (call, *given) in asked.items():
        try:
            call(*given)
        except UnsupportedError as error:
            assert name in str(error) and f"leaves/{leaf} " in str(error), error
        else:
            raise AssertionError(name)
    for command in LEAVES[leaf].commands:
        assert f"\\n  {command} " not in listed
        done = run(command, "--help")
        assert done.exit_code in (1, 2) and f"leaves/{leaf} " in done.output, done.output
"""


def run_without(leaves, folder, **paths):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", WITHOUT, *leaves],
        cwd=folder, env=environment() | paths, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_core_works_without_any_leaf(tmp_path):
    run_without(LEAVES, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("leaf", LEAVES)
def test_the_folder_of_a_leaf_can_be_deleted(leaf, tmp_path):
    copy = tmp_path / "copy" / "dkernel"
    shutil.copytree(PACKAGE, copy)  # with what was compiled
    shutil.rmtree(copy / "leaves" / leaf)
    here = tmp_path / "here"
    here.mkdir()
    run_without([leaf], here, PYTHONPATH=str(Path(copy).parent))
