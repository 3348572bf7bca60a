"""The tools that read the files of deploy/ take them, and refuse each with a mistake."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.deploy.places import DEPLOY, names
from tests.deploy.processes import run

HERE = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
COMPOSE = ["docker", "compose"] if run("sh", "-c", "docker compose version").returncode == 0 else ["docker-compose"]
SHELL = ["shellcheck", "--severity=warning", "--shell=bash"]
SCHEMA = ["check-jsonschema", "--builtin-schema", "vendor.compose-spec"]
SYSTEMD = ["systemd-analyze", "verify"]
CHECKS = [
    *((name, SHELL, "set -", "unused=1\nset -") for name in names(".sh", ".sbatch", ".pbs")),
    ("Dockerfile", ["hadolint"], "WORKDIR /src", "WORKDIR src"),
    ("compose.yaml", SCHEMA, "restart: on-failure:5", "restart: [often]"),
    ("compose.yaml", [*COMPOSE, "--file"], "restart: on-failure:5", "restart: [often]"),
    *((f"hosts/{path.name}", SYSTEMD, "Restart=", "Restat=") for path in sorted((DEPLOY / "hosts").glob("*.service"))),
]


def refused(command, file):
    """Whether a tool finds a mistake in a file."""
    done = run(*command, file, *(["config"] if command[-1] == "--file" else []), env={**os.environ, "PATH": HERE})
    if "Failed to" in done.stderr and "bus" in done.stderr:
        pytest.skip(f"{command[0]} cannot work here: {done.stderr.strip()}")
    return done.returncode != 0 or (command is SYSTEMD and file.name in done.stderr)


@pytest.mark.parametrize(("name", "command", "old", "new"), CHECKS, ids=[f"{name}-{c[0]}" for name, c, *_ in CHECKS])
def test_the_tool_takes_it_and_refuses_a_mistake(name, command, old, new, tmp_path):
    if shutil.which(command[0], path=HERE) is None:
        pytest.skip(f"{command[0]} is not installed")
    # systemd looks for the program: one that is there. docker-compose does not know the name of a project.
    text = (DEPLOY / name).read_text().replace("/opt/dkernel/bin/", "/bin/true ")
    if command[0] == "docker-compose":
        text = text.replace("name: dkernel\n", "")
    assert old in text
    file = tmp_path / Path(name).name
    file.write_text(text)
    assert not refused(command, file)
    file.write_text(text.replace(old, new))
    assert refused(command, file)
