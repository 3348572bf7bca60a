"""Commands as processes: how they end, what they print where, what they leave behind and what they do not."""

import hashlib
import json
import os
import pty
import re
import resource
import signal
import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner

import dkernel
from dkernel.cli import main
from dkernel.cli.train import train_command
from dkernel.model.parameters import PARAMETERS
from tests.cli.conftest import FEATURES, begin
from tests.processes import DKERNEL, environment


def hash_of(folder):
    """Of every name, size, time and byte in a folder."""
    found = [(str(p), p.stat().st_mtime_ns, p.read_bytes() if p.is_file() else b"") for p in sorted(folder.rglob("*"))]
    return hashlib.sha256(repr((folder.stat().st_mtime_ns, found)).encode()).hexdigest()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_in_the_middle(number, code, data, tmp_path):
    process = begin(["train", data / "train.parquet", "--label", "y", "--out", "m", *FEATURES], tmp_path)
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=120)
    assert process.returncode == code
    assert stdout == ""
    assert "Traceback" not in stderr
    assert f"stopped by {number.name}; nothing was written." in stderr
    record = json.loads((tmp_path / "m.run.json").read_text())
    assert (record["status"], record["exit_code"]) == ("stopped", code)
    assert [path.name for path in tmp_path.iterdir()] == ["m.run.json"]


def test_a_signal_while_the_command_is_imported(monkeypatch):
    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("dkernel.cli.import_module", interrupt)
    assert CliRunner().invoke(main, ["train"]).exit_code == 130


def test_a_stopped_job_ends_although_a_thread_of_it_does_not():
    job = """
import click, threading
from dkernel.cli import exit_codes as exits

@click.command(cls=exits.ExitCodeCommand)
def stuck():
    threading.Thread(target=threading.Event().wait).start()
    raise KeyboardInterrupt

exits.GRACE = 0.1
stuck(prog_name="stuck")
"""
    ended = subprocess.run([sys.executable, "-c", job], env=environment(), capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (130, "dkernel stuck: stopped by SIGINT; nothing was written.\n")


COMMANDS = [
    (0, ["train", "train.parquet", "--label", "y", "--out", "o", *FEATURES]),
    (0, ["score", "m", "new.parquet", "--exclude", "id", "--out", "o"]),
    (1, ["train", "train.parquet", "--label", "y", "--out", "o", *FEATURES, "--memory-limit", "1MiB"]),
    (2, ["train", "train.parquet", "--label", "y", "--out", "o", "--alpha", "much"]),
    (2, ["score", "m", "new.parquet", "--exclude", "id", "--out", "o", "--write", "nonsense"]),
    (65, ["train", "none.parquet", "--label", "y", "--out", "o"]),
    (65, ["score", "m", "train.parquet", "--exclude", "a", "--out", "o"]),
    (65, ["score", "train.parquet", "new.parquet", "--out", "o"]),
    (75, ["train", "train.parquet", "--label", "y", "--out", "o", *FEATURES, "--scheduler", "tcp://127.0.0.1:1"]),
    (75, ["score", "m", "new.parquet", "--exclude", "id", "--out", "o", "--scheduler-file", "none.json"]),
]


@pytest.mark.parametrize(("code", "command"), COMMANDS, ids=lambda value: str(value) if isinstance(value, int) else "")
def test_zero_means_complete_and_anything_else_that_nothing_is_there(
    code, command, run_to, model, data, here, monkeypatch
):
    monkeypatch.setattr("dkernel.streaming.execution.connect.CONNECT_TIMEOUT", 0.3)
    for name in ("train.parquet", "new.parquet"):
        (here / name).symlink_to(data / name)
    (here / "m").symlink_to(model)
    result = run_to(*command, "--progress", "none", code=code)
    assert "Traceback" not in result.output
    out = here / "o"
    if command[0] == "score":
        assert (out / "_SUCCESS").exists() == (code == 0)
    assert out.exists() == (code == 0)
    assert [path.name for path in here.iterdir() if path.name.startswith(".")] == []
    if code:
        assert result.stdout == ""
        assert len(result.stderr.strip().splitlines()[0]) > 40  # what, where and what to do
    elif command[0] == "train":
        assert dkernel.load(out).model_.facts["rows"] == 3000
    if (here / "o.run.json").exists():  # a command whose options mean nothing has not begun to run
        assert json.loads((here / "o.run.json").read_text())["exit_code"] == code
    else:
        assert code == 2


def test_a_terminal_gets_a_bar_and_a_pipe_no_control_characters(data, tmp_path):
    command = [*DKERNEL, "train", str(data / "train.parquet"), "--label", "y", *FEATURES, "--out"]
    ours, theirs = pty.openpty()
    process = subprocess.Popen([*command, "a"], cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    seen = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        seen += part
    os.close(ours)
    assert process.wait(timeout=120) == 0
    stdout = process.stdout.read().decode()
    process.stdout.close()
    assert b"\r[" in seen
    assert re.search(rb"\[#*\.*\] pass 1/1: ", seen)
    assert stdout.startswith("a: 3,000 rows in ")
    done = subprocess.run([*command, "b"], cwd=tmp_path, env=environment(), capture_output=True, text=True, check=True)
    assert done.stdout.startswith("b: 3,000 rows in ")
    for text in (done.stdout, done.stderr):
        assert {c for c in text if ord(c) < 32 or ord(c) == 127} <= {"\n"}
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_dry_run_has_no_side_effects_and_tells_memory_and_work(run_to, data, here):
    rows = np.random.default_rng(0).normal(size=(500, 3))
    text = "a,b,y\n" + "\n".join(f"{a},{b},{int(c > 0)}" for a, b, c in rows)
    (here / "x.csv").write_text(text)
    (here / "scratch").mkdir()
    before, beside = hash_of(here), hash_of(data)
    for source in ("x.csv", data / "train.parquet"):
        job = ["train", source, "--label", "y", "--out", "m", "--report", "r.html", "--scratch", "scratch"]
        result = run_to(*job, *(FEATURES if source != "x.csv" else ["--n-components", "64"]), "--dry-run")
        for words in ("MiB each worker", "iB client", "readings", "core seconds"):
            assert words in result.stdout
    assert (hash_of(here), hash_of(data)) == (before, beside)


# Of options that have neither words nor a least number.
VALUES = {"seed": 4, "passes": 3, "polish": 2, "n_components": 128, "holdout": 0.1, "alpha": 1e-6}
VALUES |= {"max_seconds": 90.0, "max_model_size": "200MiB", "memory_limit": "2GiB"}
VALUES |= {"kernel": "Laplacian(gamma=0.1)", "local": "cells(rows=512, overlap=0.25)", "exclude": ["a", "b"]}
VALUES |= {"holdout_by": "group:site", "formats": "day=%d.%m.%Y", "delimiter": ";", "baselines": "off"}


def another_value(option):
    """A value of an option that is not the one it has by default."""
    known = PARAMETERS.get(option.name)
    words = known.words if known else getattr(option.type, "choices", ())
    others = [word for word in words if word not in (option.default, known and known.default)]
    return 7 if hasattr(option.type, "min") else VALUES.get(option.name, others[0] if others else "text")


NOT_IN_FILES = ("config", "print_config", "data", "import")  # of these the last would run code


@pytest.mark.parametrize("option", [p.name for p in train_command.params if p.name not in NOT_IN_FILES])
def test_a_key_of_the_file_is_the_flag_of_that_name(option, run, run_to, tmp_path):
    spelled = next(p for p in train_command.params if p.name == option)
    value = True if spelled.is_flag else another_value(spelled)
    text = json.dumps(value) if not isinstance(value, float) else repr(value)
    (tmp_path / "run.toml").write_text(f"{option.replace('_', '-')} = {text}\n")
    flag = ",".join(value) if isinstance(value, list) else value
    by_flag = [spelled.opts[0]] if spelled.is_flag else [spelled.opts[0], flag]
    one = run_to("train", "--config", tmp_path / "run.toml", "--print-config")
    two = run("train", *by_flag, "--print-config")
    assert one.stdout == two.stdout
    assert run_to("train", "--print-config").stdout != one.stdout


def test_an_unexpected_error_asks_for_the_traceback_and_debug_gives_it(run, run_to, data, tmp_path, monkeypatch):
    def broken(*_, **__):
        raise ZeroDivisionError("of the program's own")

    monkeypatch.setattr("dkernel.training.fit.train", broken)
    job = ["train", data / "train.parquet", "--label", "y", "--out", tmp_path / "m", *FEATURES]
    result = run_to(*job, code=1)
    assert "--debug" in result.stderr
    assert "Traceback" not in result.stderr
    assert "Traceback" in run(*job, "--debug").stderr


def no_room():
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))


def test_a_record_for_which_there_is_no_room_leaves_nothing(data, model, shell, tmp_path):
    command = ["evaluate", model, data / "test.parquet", "--exclude", "price,id,note", "--record", tmp_path / "r.json"]
    done = shell(*command, cwd=tmp_path, preexec_fn=no_room)
    assert "This should not happen" not in done.stderr
    assert list(tmp_path.iterdir()) == []
