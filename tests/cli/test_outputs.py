"""Nothing that is read is ever replaced, whatever the options that name it, nor one output by another."""

import errno
import json
import os
import shutil

import click
import numpy as np
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

import dkernel
from dkernel.cli import main
from dkernel.cli.options import FileType
from dkernel.cli.run_record import Record
from dkernel.data.opening import open_source
from dkernel.data.paths import expand
from dkernel.data.writers.collisions import inputs
from dkernel.errors import DataError, UnsupportedError
from dkernel.inference.score import write_scores
from dkernel.model.model_file import load_model
from dkernel.streaming.execution.local import ThreadsExecutor
from tests.cli.conftest import FEATURES

TRAIN = ["train", "--label", "y", *FEATURES, "--quiet", "--baselines", "off"]
TUNE = ["tune", "--label", "y", *FEATURES[:4], "--n-components", "16", "--quiet"]
TUNE += ["--metric", "identity", "--grid", "gamma=0.3", "--grid", "alpha=1e-4|1e-2"]
SCORE = ["score", "--exclude", "y,price,id,note", "--quiet", "--overwrite"]


@pytest.fixture
def place(data, model, here):
    """A working folder with in/a.parquet, in/b.parquet, x.parquet, x.csv and m.safetensors."""
    (here / "in").mkdir()
    rows = pq.read_table(data / "test.parquet")
    for path in ("in/a.parquet", "in/b.parquet", "x.parquet"):
        pq.write_table(rows, path)
    csv.write_csv(rows, "x.csv")
    shutil.copy(model, "m.safetensors")
    os.symlink("x.parquet", "link.parquet")
    os.symlink("in", "link")
    os.link("x.parquet", "hard.parquet")
    (here / "c.toml").write_text("quiet = true\n")
    (here / "own.py").write_text("")
    return here


def contents(folder):
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def refused(run, place, *command, record=False):
    """The message of a command that changes nothing, or writes its record alone."""
    before = contents(place)
    result = run(*command)
    assert result.exit_code == 65, result.output
    assert {
        name: held for name, held in contents(place).items() if not (record and name.endswith(".run.json"))
    } == before
    return result.stderr


WHERE = [
    ("in/*.parquet", "in/a.parquet"),
    ("in", "in/b.parquet"),
    ("in", "link/b.parquet"),
    ("link", "in/b.parquet"),
    ("x.parquet", "in/../x.parquet"),
    ("x.parquet", "link.parquet"),
    ("link.parquet", "x.parquet"),
    ("x.parquet", "hard.parquet"),
    ("local://{here}/x.parquet", "x.parquet"),
    ("local://{here}/in", "in/a.parquet"),
    ("local://{here}/in/*.parquet", "in/a.parquet"),
]


@pytest.mark.parametrize(("given", "out"), WHERE)
def test_no_output_of_train_replaces_an_input(run, place, given, out):
    message = refused(run, place, *TRAIN, given.format(here=place), "--out", out)
    assert "also an input" in message
    assert out in message


@pytest.mark.parametrize(
    ("more", "names"),
    [
        (["--record", "new"], "--record and --out"),
        (["--report", "new"], "--report and --out"),
        (["--checkpoint", "new"], "--checkpoint and --out"),
        (["--scratch", "new"], "--scratch and --out"),
        (["--checkpoint", "new/ck"], "--checkpoint names a place inside of --out"),
        (["--report", "r.html", "--record", "in/../r.html"], "--record and --report"),
        (["--report", "new.run.json"], "the run record and --report"),
    ],
)
@pytest.mark.parametrize("command", [TRAIN, TUNE])
def test_two_outputs_have_two_names(run, place, command, more, names):
    assert names in refused(run, place, *command, "x.parquet", "--out", "new", *more)


@pytest.mark.parametrize("given", ["nothing.parquet", "in/nothing*.parquet", "m.safetensors", "."])
def test_inputs_are_kept_beside_one_that_cannot_be_read(run, place, given):
    assert "also an input" in refused(run, place, *TRAIN, given, "x.parquet", "--out", "new", "--record", "x.parquet")


COMMANDS = {name: main.get_command(None, name) for name in main.list_commands(None)}
NO_FILES = {  # options whose text names no file
    *("label", "weight", "group", "kernel", "categorical", "local", "baselines", "budget", "grid"),
    *("encoding", "delimiter", "scheduler", "formats"),
}
GIVEN = {"model": "m.safetensors", "data": "x.csv", "label": "y", "out": "new"}
FILES = {"model": "m.safetensors", "config": "c.toml", "import": "own.py"}  # that an option reads; the others x.parquet
SPELLINGS = ("in/../{}", "a link", "a hard link")


def test_every_option_of_text_says_whether_it_names_a_file():
    """A new one has a `FileType` as its type, and is then crossed below, or is listed here."""
    options = [param for command in COMMANDS.values() for param in command.params]
    assert {param.name for param in options if param.type is click.STRING} == NO_FILES & {p.name for p in options}


def crossed():
    """Every option that reads with every option of the same command that writes; doctor writes nothing."""
    pairs = []
    for name in sorted(COMMANDS.keys() - {"doctor"}):
        places = [p for p in COMMANDS[name].params if isinstance(p.type, FileType)]
        written = [p for p in places if p.type.use in ("written", "folder")]
        pairs += [(name, read, other) for read in places if read not in written for other in written]
    return [pytest.param(*pair, id=f"{pair[0]} {pair[1].name} {pair[2].name}") for pair in pairs]


def spoken(name, given):
    """The words of a command with these values of its options."""
    options = [param for param in COMMANDS[name].params if param.name in given]
    words = [
        [given[p.name]] if isinstance(p, click.Argument) else [max(p.opts, key=len), given[p.name]] for p in options
    ]
    return [name, *(word for pair in words for word in pair)]


@pytest.mark.parametrize(("name", "read", "written"), crossed())
def test_nothing_that_an_option_reads_is_what_another_writes(run, place, name, read, written, request):
    file = FILES.get(read.name, "x.parquet")
    spelling = SPELLINGS[len(request.node.name) % 3]
    if spelling[0] == "a":
        (os.link if "hard" in spelling else os.symlink)(file, spelling)
    given = GIVEN | {read.name: file, written.name: spelling.format(file)}
    said = refused(run, place, *spoken(name, given))
    assert "also an input" in said
    assert (
        read.human_readable_name.rstrip(".") if isinstance(read, click.Argument) else max(read.opts, key=len)
    ) in said


WRITTEN = sorted({(name, other.name) for name, _, other in (pair.values for pair in crossed())})


@pytest.mark.parametrize("link", [False, True])
@pytest.mark.parametrize(("name", "written"), WRITTEN)
def test_no_output_takes_the_place_of_a_device(run, place, name, written, link):
    """As root, --record /dev/null made a file of it, for all programs of the machine."""
    os.mkfifo("device")
    os.symlink("device", "to-it")
    assert "what is written would take its place" in refused(
        run, place, *spoken(name, GIVEN | {written: "to-it" if link else "device"})
    )
    assert (place / "device").is_fifo()


@pytest.mark.parametrize(("name", "written"), WRITTEN)
def test_no_output_goes_to_the_standard_output(run, place, name, written):
    """It was a file named -."""
    assert "-: an output appears whole" in refused(run, place, *spoken(name, GIVEN | {written: "-"}))


@pytest.mark.parametrize("way", ["file", "home", "config", "environment"])
def test_an_output_lies_where_its_name_says(run_to, place, way, monkeypatch):
    """Beside file:///s.parquet no run record was written, and ~ of a config file was a folder."""
    out = f"file://{place}/s.parquet" if way == "file" else "~/s.parquet"
    monkeypatch.setenv("HOME", str(place))
    (place / "o.toml").write_text(f"out = {out!r}\nrecord = '~/r.json'\n")
    more = {"config": ["--config", "o.toml"], "environment": []}.get(way, ["--out", out])
    env = {"DKERNEL_SCORE_OUT": out} if way == "environment" else {}
    words = ["score", "m.safetensors", "x.csv", "--exclude", "y,price,id,note", *more]
    assert "warning" not in run_to(*words, **env).output
    assert (place / "s.parquet").is_file()
    assert (place / ("r.json" if way == "config" else "s.parquet.run.json")).is_file()
    assert not {"~", "file:"} & set(os.listdir())


def test_python_takes_the_place_of_no_device_either(place):
    os.mkfifo("device.csv")
    model = load_model("m.safetensors")
    calls = [
        lambda: dkernel.save(dkernel.load("m.safetensors"), "device.csv"),
        lambda: dkernel.score(model, "x.csv", "device.csv", overwrite=True),
    ]
    for call in (lambda: dkernel.save(dkernel.load("m.safetensors"), "-"), lambda: dkernel.score(model, "x.csv", "-")):
        with pytest.raises(DataError, match="-: an output appears whole"):
            call()
    for call in calls:
        with pytest.raises(DataError, match="would take its place"):
            call()
    assert (place / "device.csv").is_fifo()


@pytest.mark.parametrize(("name", "written"), WRITTEN)
def test_a_name_is_too_long_before_the_work(run, place, name, written):
    record = {"record": "r.json"} if any(param.name == "record" for param in COMMANDS[name].params) else {}
    assert "is too long" in refused(run, place, *spoken(name, GIVEN | record | {written: "x" * 256}))


def test_a_name_that_is_as_long_as_can_be_is_no_trouble_after_the_work(run, run_to, place):
    words = [*TRAIN, "x.csv", "--record", "r.json", "--out"]
    run_to(*words, "x" * 255)
    assert (place / ("x" * 255)).exists()
    assert "the run record is too long" in refused(run, place, *TRAIN, "x.csv", "--out", "x" * 250)


FULL = {
    "train": ([*TRAIN, "x.csv", "--out"], 75),
    "conformalize": (
        ["conformalize", "m.safetensors", "x.csv", "--label", "y", "--exclude", "price,id,note", "--out"],
        75,
    ),
    "export": (["export", "m.safetensors", "--out"], 75),
    "show": (["show", "m.safetensors", "--markdown", "--out"], 75),
    "record": (["evaluate", "m.safetensors", "x.csv", "--label", "y", "--exclude", "price,id,note", "--record"], 0),
}


@pytest.mark.parametrize("name", FULL)
def test_a_full_disk_is_named_by_what_was_written(run, place, monkeypatch, name):
    """A write has no name to its error: it was one of "the operating system", and of a record there was no word."""

    def fail(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    words, code = FULL[name]
    monkeypatch.setattr(os, "fsync", fail)
    result = run(*words, "new")
    assert result.exit_code == code, result.output
    assert ("new: no room to write" if code else "record new is not written") in result.stderr
    assert (place / "new").exists() == (name == "record")  # its first state, which waits for no disk


@pytest.mark.parametrize(("given", "judges"), WHERE)
@pytest.mark.parametrize("command", [TRAIN, TUNE], ids=["train", "tune"])
def test_a_file_that_teaches_does_not_judge_under_another_name(run, place, command, given, judges):
    message = refused(run, place, *command, given.format(here=place), "--out", "new", "--eval-set", judges, record=True)
    assert f"{os.path.basename(judges)} is among DATA and --eval-set" in message


@pytest.mark.parametrize("more", [["--record", "x.csv"], ["--config", "new.log"]])
def test_a_job_of_a_cluster_replaces_nothing_either(run, place, more):
    shutil.copy("c.toml", "new.log")
    words = [*TRAIN, "x.csv", "--out", "new", "--checkpoint", "c", "--detach", "--scheduler", "tcp://127.0.0.1:9"]
    assert "also an input" in refused(run, place, *words, *more)


def test_what_a_folder_holds_is_kept_when_the_folder_cannot_be_read(run, place):
    (place / "in" / "notes.txt").write_text("no data")
    (place / "in" / "inner").mkdir()
    assert "also an input" in refused(run, place, *TRAIN, "in", "--out", "new", "--record", "in/a.parquet")


def test_a_folder_of_scores_is_not_replaced_by_its_own_scores(run, run_to, place):
    run_to(*SCORE, "m.safetensors", "x.csv", "--out", "scores", "--keep", "a,b,c")
    again = [*SCORE[:1], "m.safetensors", "--allow-extra", "--overwrite", "--quiet"]
    for data in ("scores", "scores/*.parquet", "scores/part-00000.parquet"):
        assert "holds an input" in refused(run, place, *again, data, "--out", "scores")
    assert "inside of --out" in refused(
        run, place, *SCORE, "m.safetensors", "x.csv", "--out", "scores", "--record", "scores/run.json"
    )


def test_a_list_of_rejected_rows_is_not_removed_while_it_is_read(run, place):
    shutil.copy("x.csv", "s.csv.rejects-0123abcd.csv")
    message = refused(run, place, *SCORE, "m.safetensors", "s.csv.rejects-0123abcd.csv", "--out", "s.csv", record=True)
    assert "also an input" in message


def test_python_does_not_score_over_its_rows(place):
    model = load_model("m.safetensors")
    source = open_source("in", columns=model.columns, exclude=("y", "price", "id", "note"))
    before = contents(place)
    with ThreadsExecutor() as executor, pytest.raises(DataError, match="also an input"):
        write_scores(model, source, "in/a.parquet", executor, overwrite=True)
    assert contents(place) == before


def test_nothing_is_written_inside_of_a_zarr_store(run, place):
    zarr = pytest.importorskip("zarr")

    store = zarr.open_group("d.zarr", mode="w")
    store.create_array("X", data=np.zeros((4, 2)))
    assert "inside of an input" in refused(run, place, *TRAIN, "d.zarr", "--out", "d.zarr/m")
    assert "inside of an input" in refused(run, place, *TRAIN, "d.zarr", "--out", "new", "--checkpoint", "d.zarr/ck")


def test_a_link_to_nothing_yet_is_the_place_it_points_to(run, place):
    os.symlink("later", "one")
    message = refused(run, place, *TRAIN, "x.parquet", "--out", "later", "--report", "one")
    assert "--report and --out" in message


def test_a_folder_stays_readable_with_all_that_dkernel_puts_there(run_to, place):
    pytest.importorskip("matplotlib")
    pytest.importorskip("onnx")
    everything = ["--out", "in/model", "--report", "in/fit.html", "--record", "in/r.json", "--checkpoint", "in/ck"]
    run_to(*TRAIN, "in", *everything)
    run_to("export", "in/model", "--out", "in/model.onnx")
    run_to(*SCORE, "in/model", "x.csv", "--out", "in/scores", "--done", "in/done.json")
    run_to("show", "in/model", "--markdown", "--out", "in/card.md")
    made = {"model", "done.json", "card.md", "fit.html", "r.json", "ck", "model.onnx", "scores", "scores.run.json"}
    assert made <= set(os.listdir("in"))
    for data in ("in", f"local://{place}/in", "in/*"):
        held = [os.path.basename(path) for path in inputs_of(data)]
        assert held == ["a.parquet", "b.parquet"]
    run_to(*TRAIN, "in", "--out", "in/model.safetensors")
    assert (place / "in" / "model.safetensors").read_bytes() == (place / "in" / "model").read_bytes()
    run_to(*TRAIN, "in", "--out", "in/model.safetensors", "--overwrite")


def inputs_of(data):
    return [place.path for place in inputs([data])]


def test_a_foreign_file_in_a_folder_is_still_named(run, place):
    (place / "in" / "notes.json").write_text('{"command": 1}')
    assert "notes.json" in refused(run, place, *TRAIN, "in", "--out", "new", record=True)
    os.remove("in/notes.json")
    os.remove("new.run.json")
    (place / "in" / "other.safetensors").write_bytes(b"\x08" + bytes(7) + b"{}      ")
    assert "other.safetensors" in refused(run, place, *TRAIN, "in", "--out", "new", record=True)


def test_a_running_record_is_known_as_one(place):
    record = Record({})
    with record.write_to("in/any.json"):
        assert [os.path.basename(file.path) for file in expand("in")] == ["a.parquet", "b.parquet"]
    assert json.loads((place / "in" / "any.json").read_text())["status"] == "done"


@pytest.mark.usefixtures("place")
def test_an_output_in_an_input_folder_that_replaces_nothing(run_to):
    run_to(*SCORE, "m.safetensors", "in", "--out", "in/s.parquet")
    assert pq.read_table("in/s.parquet").num_rows == 1000


def test_a_store_is_kept_too(run, place):
    fsspec = pytest.importorskip("fsspec")
    system = fsspec.filesystem("memory")
    held = (place / "x.csv").read_bytes()
    for name in ("/kept/x.csv", "/kept/y.csv"):
        system.pipe_file(name, held)
    for given in ("memory://kept/x.csv", "memory://kept", "memory:///kept/*.csv", "simplecache::memory://kept/x.csv"):
        for more in (["--out", "memory://kept/x.csv"], ["--out", "s.csv", "--record", "memory://kept/x.csv"]):
            assert "also an input" in refused(run, place, *SCORE, "m.safetensors", given, *more)
            assert system.cat_file("/kept/x.csv") == held
    system.rm("/kept", recursive=True)


@pytest.mark.parametrize("command", [TRAIN, TUNE], ids=["train", "tune"])
def test_a_model_is_replaced_only_when_asked(run, run_to, place, command):
    fit = [*command, "x.csv"]
    before = (place / "m.safetensors").read_bytes()
    said = refused(run, place, *fit, "--out", "m.safetensors")
    assert "m.safetensors already exists. Add --overwrite to replace it" in said
    run_to(*fit, "--out", "m.safetensors", "--overwrite")
    assert (place / "m.safetensors").read_bytes() != before
    for _ in range(2):  # the second continues the first, which may have been stopped after its model was written
        run_to(*fit, "--out", "n", "--checkpoint", "c", "--resume")


LOCAL = [
    [*TRAIN, "x.csv", "--out", "n", "--scratch", "s3://bucket/s"],
    ["score", "m.safetensors", "x.csv", "--out", "s.csv", "--scratch", "gs://bucket/s"],
    [*TRAIN, "x.csv", "--out", "n", "--config", "https://site/a.toml"],
]


@pytest.mark.parametrize("command", LOCAL, ids=" ".join)
def test_a_url_where_a_path_is_needed_is_refused_at_once(run_to, place, command):
    before = sorted(place.iterdir())
    said = run_to(*command, code=2)
    assert "lies on this machine or on a disk that it mounts, not at a URL" in said.stderr
    assert sorted(place.iterdir()) == before


def test_a_url_as_a_scratch_folder_of_python_is_refused(place):
    with pytest.raises(UnsupportedError, match="a scratch folder lies on"):
        dkernel.open_source("x.csv", scratch="s3://bucket/s")
    assert not (place / "s3:").exists()
