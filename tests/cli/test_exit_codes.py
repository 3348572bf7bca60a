import json
import resource
import signal
import subprocess
import sys
import warnings
from functools import partial
from importlib.metadata import entry_points

import click
import pytest
from click.testing import CliRunner

from dkernel import errors
from dkernel.cli.exit_codes import ExitCodeCommand, Paused, Stopped, exit_code, public_name
from dkernel.data.failures import RefusedWorkerError
from tests.processes import environment


def job(action):
    @click.command(cls=ExitCodeCommand)
    @click.option("--json", is_flag=True)
    @click.option("--quiet", is_flag=True)
    @click.option("--debug", is_flag=True)
    def command(**_):
        action()

    return command


def raising(error):
    def action():
        raise error

    return job(action)


CODES = [
    (errors.DataError("a"), 65),
    (errors.DamagedFileError("a"), 65),
    (errors.TooLargeError("a", (0,)), 65),
    (errors.MissingValueError("a"), 65),
    (errors.MissingLabelError("a"), 65),
    (errors.ModelFileError("a"), 65),
    (FileNotFoundError(2, "No such file", "x.csv"), 65),
    (errors.RecipeError("a"), 2),
    (errors.UnsupportedError("a"), 2),
    (errors.ClusterError("a"), 75),
    (errors.StoreError("a"), 75),
    (RefusedWorkerError("tcp://10.0.0.1:1", "a"), 1),
    (errors.MemoryBudgetError("a"), 1),
    (PermissionError(13, "Permission denied", "x"), 1),
    (ZeroDivisionError("a"), 1),
    (KeyboardInterrupt(), 130),
    (OSError(28, "No space left on device", "x"), 75),
    (OSError(5, "Input/output error", "x"), 75),
    (OSError("a damaged file"), 1),
    (MemoryError(), 75),
    (Stopped(), 143),
    (Paused(), 75),
]


@pytest.mark.parametrize(("error", "code"), CODES, ids=lambda value: type(value).__name__)
def test_every_error_has_its_code_and_no_traceback(error, code):
    assert exit_code(error) == code
    result = CliRunner().invoke(raising(error))
    assert result.exit_code == code
    assert result.stdout == ""
    assert len(result.stderr.strip().splitlines()) == 1
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(("error", "code"), CODES, ids=lambda value: type(value).__name__)
def test_the_answer_names_a_type_that_a_program_can_import(error, code):
    told = json.loads(CliRunner().invoke(raising(error), ["--json"]).stdout)
    assert told["exit_code"] == code
    wanted = "ClusterError" if isinstance(error, RefusedWorkerError) else type(error).__name__
    assert told["error"]["type"] == wanted


def test_no_error_of_the_package_has_a_name_of_its_own_in_an_answer():
    kinds = [errors.DKernelError]
    for kind in kinds:
        kinds += kind.__subclasses__()
    of_rooms = [kind for kind in kinds if kind.__module__ != errors.__name__]
    assert RefusedWorkerError in of_rooms
    assert {public_name(kind.__new__(kind)) for kind in of_rooms} <= {*errors.__all__}


def test_every_error_type_has_a_code_on_purpose():
    kinds = {getattr(errors, name) for name in errors.__all__ if name.endswith("Error")}
    assert kinds <= {type(error) for error, _ in CODES} | {errors.DKernelError}


def test_a_signal_amid_imports_has_its_code_and_tells_of_the_checkpoint(monkeypatch):
    """NumPy that is broken off half imported raises RecursionError when it is imported again."""

    class Recursive:
        def __getattr__(self, name):
            raise RecursionError(name)

    monkeypatch.setitem(sys.modules, "dkernel.training.checkpoint", Recursive())
    command = raising(KeyboardInterrupt())
    command.params.append(click.Option(["--checkpoint"]))
    ended = CliRunner().invoke(command, ["--checkpoint", "ck"])
    assert (ended.exit_code, "Traceback" in ended.output) == (130, False)
    assert "stopped by SIGINT; what was saved is in the checkpoint in ck" in ended.output


def test_debug_shows_the_traceback():
    result = CliRunner().invoke(raising(errors.DataError("row 7")), ["--debug"])
    assert result.exit_code == 65
    assert "Traceback" in result.stderr
    assert "row 7" in result.stderr


def test_json_says_the_error_once():
    result = CliRunner().invoke(raising(errors.DataError("row 7")), ["--json"])
    assert json.loads(result.stdout) == {"error": {"type": "DataError", "message": "row 7"}, "exit_code": 65}


def test_warnings_are_one_line_on_stderr_and_quiet_hides_them():
    def warn():
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn(errors.ConvergenceWarning("not there yet"), stacklevel=1)

    assert CliRunner().invoke(job(warn)).stderr == "warning: not there yet\n"
    assert CliRunner().invoke(job(warn), ["--quiet"]).stderr == ""


def test_handlers_are_as_before():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    CliRunner().invoke(raising(errors.DataError("a")))
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_is_a_command_of_dask_too(tmp_path):
    from dask.cli import cli

    (found,) = entry_points(group="dask_cli", name="kernel")
    before = dict(cli.commands)
    cli.add_command(found.load())  # as dask does, under the name that the command has
    try:
        assert "train" in CliRunner().invoke(cli, ["kernel", "--help"]).stdout
        missing = CliRunner().invoke(cli, ["kernel", "show", str(tmp_path / "none")])
        assert missing.exit_code == 65
        assert missing.stderr.startswith("dkernel show: ")
    finally:
        cli.commands.clear()
        cli.commands.update(before)


@pytest.mark.skipif(sys.platform == "win32", reason="no such limit")
def test_a_limit_of_addresses_too_small_for_the_libraries(data, shell):
    """OpenBLAS would try for ever to get its first buffer, deaf to signals."""
    limit = 300 * 2**20
    job = ["train", data / "train.parquet", "--label", "y", "--out", "m", "--dry-run"]
    done = shell(*job, preexec_fn=partial(resource.setrlimit, resource.RLIMIT_AS, (limit, limit)), timeout=60)
    assert done.returncode == 1
    assert "may have 300 MiB of addresses (RLIMIT_AS, `ulimit -v`)" in done.stderr


LOST = """
import signal, time, weakref
import click
from dkernel.cli import exit_codes as exits

class Owner:
    pass

class Finalized:
    def __del__(self):
        signal.raise_signal(signal.{number})

def finalizer():
    Finalized()

def callback():
    owner = Owner()
    owner.reference = weakref.ref(owner, lambda _: signal.raise_signal(signal.{number}))
    reference, owner = owner.reference, None

def caught():
    exits.GRACE = 0.2
    try:
        signal.raise_signal(signal.{number})
    except BaseException:
        pass

@click.command(cls=exits.ExitCodeCommand)
@click.option("--checkpoint")
def lossy(checkpoint):
    {swallow}()
    while True:  # a run that goes on
        time.sleep(0.01)

lossy(prog_name="lossy")
"""


@pytest.mark.parametrize("checkpoint", [[], ["--checkpoint", "c"]], ids=["", "checkpoint"])
@pytest.mark.parametrize(("number", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
@pytest.mark.parametrize("swallow", ["finalizer", "callback", "caught"])
def test_a_signal_whose_exception_is_lost_ends_the_run(swallow, number, code, checkpoint, tmp_path):
    script = LOST.format(swallow=swallow, number=number)
    words = [sys.executable, "-c", script, *checkpoint]
    given = {"capture_output": True, "text": True, "timeout": 120, "check": False, "cwd": tmp_path}
    done = subprocess.run(words, env=environment(), **given)
    assert done.returncode == (75 if checkpoint and number == "SIGTERM" else code), done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert f"stopped by {number}" in done.stderr


def test_what_else_a_finalizer_raises_is_told_as_before(monkeypatch):
    told = []
    monkeypatch.setattr(sys, "unraisablehook", lambda dropped: told.append(dropped.exc_value))

    class Broken:
        def __del__(self):
            raise ValueError("of a finalizer")

    assert CliRunner().invoke(job(lambda: Broken() and None)).exit_code == 0
    assert list(map(str, told)) == ["of a finalizer"]
