"""A file beside the data is never run: no process of a command looks for a module in the folder of the call.

The folder has a file for every module that there is; one that is imported leaves its name. The folder of a script and
that of a notebook are those of their users: workers import what is there.
"""

import subprocess
import sys
from importlib.metadata import packages_distributions

import pytest

from dkernel.leaves.jobs import driver
from tests.cli.conftest import FEATURES
from tests.processes import environment

MODULES = {*sys.stdlib_module_names, *packages_distributions(), "dkernel", "sitecustomize", "usercustomize"}
PROGRAM = 'from dkernel.cli import main\nif __name__ == "__main__":\n    main(prog_name="dkernel")\n'
TRAIN = ["train", "train.parquet", "--label", "y", *FEATURES]
SCORE = ["score", "m", "new.parquet", "--exclude", "id"]
WORKERS = ["--workers", "1"]
COMMANDS = [
    [*TRAIN, "--out", "n"],
    [*SCORE, "--out", "s"],
    ["tune", *TRAIN[1:4], "--exclude", "price,id,note", "--budget", "3s", "--out", "t"],
    ["evaluate", "m", "test.parquet", "--label", "y", "--report", "e.html"],
    ["conformalize", "m", "test.parquet", "--out", "c"],
    ["update", "n", "train.parquet", "--exclude", "price,id,note", "--out", "u"],
    ["doctor", "train.parquet", "--label", "y"],
    ["show", "m"],
    ["export", "m", "--out", "m.onnx"],
    ["watch", "n"],
    ["watch", "."],
    ["cancel", "n"],
]
WITH_WORKERS = [[*command, "--overwrite", *WORKERS] for command in COMMANDS[:2]]


def plant(folder, modules=MODULES):
    """Write the files; they name those that ran in the folder `ran` beside theirs."""
    (folder.parent / "ran").mkdir()
    for name in modules:
        mark = str(folder.parent / "ran" / name)
        (folder / f"{name}.py").write_text(f"open({mark!r}, 'w').close()\nraise ImportError({name!r})\n")


def ran(folder):
    return sorted(path.name for path in (folder.parent / "ran").iterdir())


def call(words, folder):
    return subprocess.run(
        [sys.executable, *map(str, words)], cwd=folder, env=environment(), capture_output=True, text=True, timeout=300
    )


@pytest.fixture
def here(tmp_path, data, model):
    """The folder of the call, with the data and a model; the program is in another one, as in an installation."""
    (tmp_path / "here").mkdir()
    for file in (*data.iterdir(), model):
        (tmp_path / "here" / ("m" if file == model else file.name)).symlink_to(file)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "dkernel").write_text(PROGRAM)
    return tmp_path / "here"


def run_all(commands, here, program):
    plant(here)
    for command in commands:
        done = call([*program, *command], here)
        code = 65 if command[0] == "cancel" else 0  # no cluster has this job
        assert (done.returncode, ran(here)) == (code, []), (command, done.stderr)


@pytest.mark.cluster
def test_no_file_of_the_folder_runs(here):
    run_all([WITH_WORKERS[0]], here, [here.parent / "bin" / "dkernel"])


@pytest.mark.cluster
@pytest.mark.slow
def test_no_file_of_the_folder_runs_in_any_command(here):
    run_all([*COMMANDS, *WITH_WORKERS], here, [here.parent / "bin" / "dkernel"])


def test_nor_in_the_process_of_a_detached_job(here, monkeypatch):
    plant(here)
    monkeypatch.setenv("PYTHONPATH", environment()["PYTHONPATH"])
    job = driver.ClusterJob(str(here / "n.run.json"), settings="", digest="")
    words = [*driver._command(job, str(here)), *TRAIN[1:], "--out", "n"]
    assert driver._run(job, words, {}, str(here), 0) == 0, (here / "log").read_text()
    assert ran(here) == []


@pytest.mark.cluster
def test_the_command_as_a_module_imports_nothing_there_once_it_begins(here):
    before = call(["-P", "-c", "import sys, runpy, dkernel; print(*sys.modules)"], here).stdout.split()
    plant(here, MODULES - {name.split(".")[0] for name in before})
    done = call(["-m", "dkernel", *TRAIN, "--out", "n", *WORKERS], here)
    assert (done.returncode, ran(here)) == (0, []), done.stderr


SCRIPT = """
from beside import answer
from dkernel.streaming.execution.base import Call
from dkernel.streaming.execution.connect import connect
if __name__ == "__main__":
    with connect(workers=1) as executor:
        print(executor.compute([Call("answer", answer)])[0])
"""


@pytest.mark.cluster
@pytest.mark.parametrize("way", ["script", "notebook"])
def test_workers_import_what_is_beside_a_script(here, way):
    there = here.parent / "project"
    there.mkdir()
    (there / "beside.py").write_text("def answer():\n    return 42\n")
    if way == "script":  # called from the folder of the data
        (there / "script.py").write_text(SCRIPT)
        done = call([there / "script.py"], here)
    else:
        done = call(["-c", SCRIPT], there)
    assert done.stdout == "[42]\n", done.stderr
