"""The shell scripts: they parse, explain themselves, refuse nonsense, and use the environment that they made."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import ROOT

SCRIPTS = [ROOT / ".ci" / "run", *sorted((ROOT / "scripts").glob("*.sh"))]


def bash(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", *map(str, arguments)],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **environment},
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_it_is_valid_bash(script):
    assert bash("-n", script).stderr == ""


@pytest.mark.parametrize("name", [".ci/run", "scripts/test.sh", "scripts/quickstart.sh"])
def test_it_can_be_executed(name):
    assert os.access(ROOT / name, os.X_OK)


@pytest.mark.parametrize("name", ["test.sh", "quickstart.sh"])
def test_help_prints_usage_and_installs_nothing(name, tmp_path):
    done = bash(ROOT / "scripts" / name, "--help", DKERNEL_VENV=str(tmp_path / "venv"))
    assert done.returncode == 0
    assert done.stdout.startswith(f"usage: scripts/{name}")
    assert not (tmp_path / "venv").exists()


@pytest.mark.parametrize("arguments", [("--rows",), ("--rows", "many"), ("--rows", "3"), ("--nonsense",)])
def test_quickstart_refuses_before_it_installs(arguments, tmp_path):
    done = bash(ROOT / "scripts" / "quickstart.sh", *arguments, DKERNEL_VENV=str(tmp_path / "venv"))
    assert done.returncode == 1
    assert arguments[0] in done.stderr
    assert not (tmp_path / "venv").exists()


# Without pip an environment is made in a blink; what installs is replaced by something that only says so.
STAND_INS = """
eval "real_$(declare -f make_environment)"
make_environment() { if [ -e "$1" ]; then real_make_environment "$@"; else "$2" -m venv --without-pip "$1"; fi; }
install_into() { echo installed "$@"; }
"""


def environment(folder: Path, extra: str = "") -> subprocess.CompletedProcess[str]:
    call = f'source "{ROOT}/scripts/venv.sh"; {STAND_INS} dkernel_environment "{folder}" "{extra}"; echo "$PY"'
    return bash("-c", call, DKERNEL_NO_UV="1", DKERNEL_PYTHON=sys.executable)


def test_an_environment_is_installed_into_once(tmp_path):
    folder = tmp_path / "venv"
    first, again = environment(folder), environment(folder)
    assert f"installed {folder} --editable {ROOT}" in first.stdout
    assert "installed" not in again.stdout
    assert again.stdout.strip() == str(folder / "bin" / "python")


def test_the_test_extra_serves_the_plain_installation_not_the_reverse(tmp_path):
    environment(tmp_path / "a", "test")
    assert "installed" not in environment(tmp_path / "a").stdout
    environment(tmp_path / "b")
    assert f"{ROOT}[test]" in environment(tmp_path / "b", "test").stdout


def test_an_interrupted_installation_is_done_again(tmp_path):
    folder = tmp_path / "venv"
    environment(folder)
    (folder / "dkernel-base.stamp").write_text("")
    assert "installed" in environment(folder).stdout


def test_a_folder_that_is_no_environment_is_left_alone(tmp_path):
    (tmp_path / "precious").write_text("mine")
    done = environment(tmp_path)
    assert done.returncode == 1
    assert "not a virtual environment" in done.stderr
    assert (tmp_path / "precious").read_text() == "mine"


@pytest.fixture
def check_with(tmp_path):
    """A function that runs test.sh with stand-ins for ruff, mypy and pytest that end with the given statuses."""
    folder, fakes = tmp_path / "venv", tmp_path / "fakes"
    fakes.mkdir()
    environment(folder, "test")

    def run(*arguments: str, ruff: int = 0, mypy: int = 0, pytest: int = 0) -> subprocess.CompletedProcess[str]:
        for name, status in {"ruff": ruff, "mypy": mypy, "pytest": pytest}.items():
            text = f"import sys\nprint({name!r}, sys.argv[1:], repr(sys.stdin.read()))\nsys.exit({status})\n"
            (fakes / f"{name}.py").write_text(text)
        return bash(ROOT / "scripts" / "test.sh", *arguments, DKERNEL_VENV=str(folder), PYTHONPATH=str(fakes))

    return run


def test_the_checks_run_in_order_and_the_end_is_clear(check_with):
    done = check_with("-k", "name with spaces")
    assert done.returncode == 0
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["ruff", "ruff", "mypy", "pytest"]
    assert "['-m', 'not slow', '-k', 'name with spaces'] ''" in done.stdout
    assert done.stderr.splitlines()[-1] == "== test.sh: PASSED: format ok, lint ok, types ok, tests ok"


def test_all_means_no_selection(check_with):
    stdout = check_with("--all").stdout
    assert "'-m', 'not cluster'] ''" in stdout
    assert "'-m', 'cluster', 'tests/" in stdout


def test_tests_of_real_processes_run_after_the_others(check_with):
    done = check_with()
    runs = [line for line in done.stdout.splitlines() if line.startswith("pytest")]
    assert len(runs) == 2
    assert "'-n'" in runs[0]
    assert "'not slow and not cluster'" in runs[0]
    assert "'-m', 'not slow and cluster', 'tests/" in runs[1]
    assert "'tests/faults/test_ends.py'" in runs[1]
    assert "'tests/test_faces.py'" not in runs[1]
    assert done.stderr.splitlines()[-1].endswith("types ok, tests ok, cluster tests ok")


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [({"pytest": 5}, 5), ({"pytest": 2, "mypy": 1}, 2), ({"mypy": 1}, 1), ({"ruff": 2}, 1)],
    ids=str,
)
def test_the_status_is_that_of_the_tests_or_one(check_with, statuses, expected):
    done = check_with(**statuses)
    assert done.returncode == expected
    assert "test.sh: FAILED:" in done.stderr.splitlines()[-1]
    assert "pytest" in done.stdout
