"""Inputs, models and outputs that are each other in every way a file system knows: what exists is never lost.

After the command every file that was there before has the bytes that it had, unless the command names it as an output
and it is none of the inputs. A command that ends with 0 leaves what it names; one whose outputs are in nobody's way
ends with 0.
"""

import glob
import json
import os
from collections.abc import Callable
from contextlib import chdir
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import dkernel
from dkernel import KernelClassifier
from dkernel.model.model import Model
from tests.combinations import examples
from tests.fuzz.commands import command

ROWS = 40
FIT = ("--kernel", "gaussian", "--gamma", "0.5", "--metric", "identity", "--n-components", "8", "--alpha", "1e-4",
       "--scale", "none", "--baselines", "off", "--label", "label")  # fmt: skip
STEMS = ("a", "b", "data", "with blank", "é", "new\nline", "-dash", "[x]", "semi;colon", "100%", "not-utf8\udcff", "~")
PLAIN = STEMS[:5]
COMMANDS = ("train", "score", "export", "evaluate")
KINDS = (
    "same",
    "link",
    "hard link",
    "linked folder",
    "dangling",
    "inside",
    "folder",
    "precious",
    "record of out",
)
MORE = {"train": ["--report", "--record", "--checkpoint"], "score": ["--record"], "evaluate": ["--record"]}
Pick = Callable[..., Any]


@dataclass
class Scene:
    """A folder with files, and a command on some of them."""

    root: Path
    inputs: list[Path]
    model: Path
    precious: Path
    data: list[str] = field(default_factory=list)
    outputs: dict[str, Path] = field(default_factory=dict)
    innocent: bool = True

    def read(self) -> list[Path]:
        """The files that the command reads: what its globs and folders expand to."""
        found: list[Path] = []
        for text in self.data:
            path = Path(text)
            if path.is_dir():
                found += sorted(p for p in path.iterdir() if p.is_file())
            else:
                found += [path] if path.exists() else [Path(p) for p in glob.glob(text)]
        return found


@cache
def a_model() -> Model:
    table = _table(0)
    X = np.column_stack([table["x"].to_numpy(), table["y"].to_numpy()])
    machine = KernelClassifier("gaussian", gamma=0.5, n_components=8, metric="identity", scale="none", solver="psgd")
    return machine.fit(pd.DataFrame(X, columns=["x", "y"]), table["label"].to_numpy()).model_


def _table(seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((ROWS, 2))
    return pa.table({"x": X[:, 0], "y": X[:, 1], "label": np.arange(ROWS) % 2})


@pytest.mark.filterwarnings("ignore")  # as in the commands
@pytest.mark.usefixtures("batches")
@examples(12)
@given(st.data())
def test_what_exists_is_never_lost(data):
    def pick(*values: Any) -> Any:
        return data.draw(st.sampled_from(values))

    # Names that are no text are no reason to fail after the case.
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        name, stems = pick(*COMMANDS), data.draw(st.permutations(PLAIN) | st.permutations(STEMS))
        scene = _make_scene(pick, stems, Path(folder))
        words = _make_command(pick, scene, name)
        note(f"{name} {words}")
        _check(scene, name, words)


def _check(scene: Scene, name: str, words: list[str]) -> None:
    """Run the command and compare all files with what they were."""
    before = {path: path.read_bytes() for path in _files(scene.root)}
    read = {os.path.realpath(path) for path in [*scene.read(), *([scene.model] if name != "train" else [])]}
    inodes = {os.stat(path).st_ino for path in read if os.path.exists(path)}
    named = _may_change(scene, name, words)
    with chdir(scene.root):
        found = command(name, *words)
    for path, content in before.items():
        now = path.read_bytes() if path.is_file() else None
        if now != content:
            what = "is gone" if now is None else f"became {now[:60]!r}"
            assert os.path.realpath(path) not in read, f"the input {path} {what} (exit {found.code} {found.message})"
            assert os.path.abspath(path) in named, f"{path} {what}, and no option names it (exit {found.code})"
    assert inodes == {os.stat(path).st_ino for path in read if os.path.exists(path)}, "an input is another file now"
    if found.code == 0:
        _check_made(scene, name)
        return
    no_text = any("\udcff" in word for word in words)  # which a file system takes and a command may refuse
    assert not scene.innocent or no_text, f"outputs in nobody's way, and exit {found.code}: {found.message}"


def _make_scene(pick: Pick, stems: list[str], folder: Path) -> Scene:
    """Two inputs, a model and a file that is nobody's, in one folder or two, under odd names."""
    inner = folder / pick("in", "in put", "é folder")
    inner.mkdir()
    form = pick("parquet", "csv")
    inputs = [inner / f"{stem}.{form}" for stem in stems[:2]]
    for i, path in enumerate(inputs):
        with open(path, "wb") as stream:
            (pq.write_table if form == "parquet" else pyarrow.csv.write_csv)(_table(i), stream)
    model = pick(folder, inner) / pick(f"{stems[2]}.safetensors", stems[2])
    dkernel.save(a_model(), folder / "plain-name")
    os.replace(folder / "plain-name", model)
    precious = folder / f"{stems[3]}.precious"
    precious.write_bytes(b"nobody names this\n")
    return Scene(folder, inputs, model, precious)


def _make_command(pick: Pick, scene: Scene, name: str) -> list[str]:
    """The words of a command on the scene; its outputs are anywhere."""
    words = {"train": [*FIT], "score": ["--allow-extra", *pick([], ["--overwrite"])], "evaluate": ["--label", "label"],
             "export": []}[name]  # fmt: skip
    if name != "export":
        scene.data = _data(pick, scene)
        words += ["--progress", "none", "--json"]
    options = ["--out"] if name != "evaluate" else []
    for option in [*options, *(more for more in MORE.get(name, []) if pick(True, False))]:
        scene.outputs[option] = _place(pick, scene, option, name)
        words += [option, _spell(pick, scene.outputs[option], scene.root)]
    model = [_spell(pick, scene.model, scene.root)] if name != "train" else []
    return [*words, "--", *model, *scene.data]


def _data(pick: Pick, scene: Scene) -> list[str]:
    folder = scene.inputs[0].parent
    kind = pick("files", "one", "glob", "folder", "link", "hard link")
    odd = any(c in str(folder / name) for name in os.listdir(folder) for c in "[]*?")
    if kind == "glob" and not odd:
        return [str(folder / f"*{scene.inputs[0].suffix}")]
    if kind == "folder" and scene.model.parent != folder:
        return [str(folder)]
    if kind in ("link", "hard link"):
        path = scene.root / f"link{scene.inputs[0].suffix}"
        (os.link if kind == "hard link" else os.symlink)(scene.inputs[0], path)
        return [str(path)]
    return [str(path) for path in (scene.inputs if kind == "files" else scene.inputs[:1])]


def _place(pick: Pick, scene: Scene, option: str, name: str) -> Path:
    """Where an output goes: somewhere new, or onto, beside, into or through something that is there."""
    suffix = {"--report": ".html", "--record": ".json", "--checkpoint": ""}.get(option, "")
    if option == "--out" and name == "score":
        suffix = pick(".parquet", ".csv", "", ".npy")
    folder = scene.inputs[0].parent
    target = pick(*scene.inputs, *([scene.model] if name != "train" else []), *scene.outputs.values())
    kind = pick("new", *KINDS)
    if kind == "new":
        return scene.root / f"{pick(*PLAIN[1:])}-{option.strip('-')}{suffix}"
    scene.innocent = False
    if kind in ("link", "hard link") and target.is_file():
        path = scene.root / f"{kind.replace(' ', '-')}-{option.strip('-')}{suffix}"
        (os.link if kind == "hard link" else os.symlink)(target, path)
        return path
    if kind == "linked folder":
        path = scene.root / f"folder-{option.strip('-')}"
        os.symlink(folder, path)
        return path / target.name if target.parent == folder else path / f"made{suffix}"
    if kind == "dangling":
        path = scene.root / f"dangling-{option.strip('-')}{suffix}"
        os.symlink(scene.root / f"target-{option.strip('-')}{suffix}", path)
        return path
    if kind == "inside":
        return folder / f"made-{option.strip('-')}{pick(suffix, '.parquet', '.csv')}"
    if kind == "folder":
        return folder
    if kind == "precious":
        return scene.precious
    if kind == "record of out" and "--out" in scene.outputs:
        out = scene.outputs["--out"]
        return out.with_name(f"{out.name}.run.json")
    return target


def _spell(pick: Pick, path: Path, root: Path) -> str:
    """The same file in one of several words."""
    if path.name.startswith("-"):
        return str(path)
    same = f"{path.parent}/../{path.parent.name}/{path.name}"
    return pick(str(path), f"./{os.path.relpath(path, root)}", f"{path.parent}/./{path.name}", same)


def _may_change(scene: Scene, name: str, words: list[str]) -> set[str]:
    """The files that the options name, with the record and the manifest that belong to them."""
    replaces = name != "score" or "--overwrite" in words
    found = set()
    for option, path in scene.outputs.items():
        if option != "--out" or replaces:
            found |= {os.path.abspath(path), os.path.realpath(path)}
        if option == "--out":
            found.add(os.path.abspath(path.with_name(f"{path.name}.run.json")))
    return found


def _files(folder: Path) -> list[Path]:
    return [Path(at) / name for at, _, names in os.walk(folder) for name in names if (Path(at) / name).is_file()]


def _check_made(scene: Scene, name: str) -> None:
    """What a command that is done has made is there, and is what was asked for."""
    out = scene.outputs.get("--out")
    if name == "train" and out is not None:
        assert len(dkernel.load(out).model_.columns) == 2, "the model is not there"
    if name == "score" and out is not None:
        assert out.exists(), "the scores are not there"
        if out.suffix == ".parquet" and out.is_file():
            assert {"label", "score"} & {*pq.read_table(pa.BufferReader(out.read_bytes())).column_names}
    if name == "export" and out is not None:
        import onnx

        onnx.load_from_string(out.read_bytes())
    if (record := scene.outputs.get("--record")) is not None:
        status: Any = json.loads(record.read_text())["status"]
        assert status == "done", f"the record says {status}"
    if (report := scene.outputs.get("--report")) is not None:
        assert "<html" in report.read_text(encoding="utf-8"), "the report is not there"
