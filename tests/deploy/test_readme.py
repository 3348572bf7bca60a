"""deploy/README.md: it names all files, its commands are commands, its table of settings is that of the files.

And the count: every file of deploy/ is checked by one of these tests.
"""

import importlib
import re
from pathlib import Path

import click
import dask
import distributed  # noqa: F401 - its settings
import pytest
import yaml

from dkernel.cli import main
from dkernel.numerics.allocator import ONE_HEAP
from dkernel.streaming.execution.connect import ENVIRONMENT, MEMORY_SETTINGS
from tests.deploy.places import DEPLOY, ROOT, commands_in, names, refusal
from tests.deploy.processes import run

CHECKED = ["README.md", "dask.yaml"]
TEXT = (DEPLOY / "README.md").read_text()
BLOCKS = re.findall(r"^```bash\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)


@pytest.mark.score("deploy")
def test_every_file_is_checked(record_property):
    found = set(names())
    checked = []
    for module in sorted(Path(__file__).parent.glob("test_*.py")):
        checked += getattr(importlib.import_module(f"tests.deploy.{module.stem}"), "CHECKED", [])
    print(f"{len(found)} files in deploy/, {len(set(checked) & found)} checked")
    record_property("score", f"{len(set(checked) & found)}/{len(found)}")
    assert sorted(checked) == sorted(found)


def test_every_file_is_named():
    mentioned = {name for name in names() if Path(name).name in TEXT}
    assert set(names()) - mentioned <= {"README.md", "Dockerfile.dockerignore", "healthcheck.py"}


@pytest.mark.parametrize("block", BLOCKS, ids=[str(n) for n in range(len(BLOCKS))])
def test_its_commands_are_commands(block):
    assert run("bash", "-n", input=block).stderr == ""
    for command in commands_in(block):
        assert refusal(command) == ""
    for name in re.findall(r"\bdeploy/[\w./-]+", block):
        assert (ROOT / name).exists(), name


def test_a_command_that_is_none_would_be_found():
    (command,) = commands_in("again.sh dkernel train x --label y --outt z 2>log &")
    assert "--outt" in refusal(command)
    assert refusal(["dask", "worker", "tcp://host:1", "--threads", "1"])


def leaves(tree, path=""):
    """a.b.c -> value of a tree of settings."""
    if not isinstance(tree, dict):
        return {path: tree}
    return {k: v for key, value in tree.items() for k, v in leaves(value, f"{path}.{key}".lstrip(".")).items()}


def settings(name):
    """Dask's settings in a file, the environment of workers apart."""
    found = leaves(yaml.safe_load((DEPLOY / name).read_text()))
    environ = {k.rsplit(".", 1)[1]: v for k, v in found.items() if ".pre-spawn-environ." in k}
    return {k: v for k, v in found.items() if k.rsplit(".", 1)[1] not in environ}, environ


ROWS = dict(re.findall(r"^\| `([^`]+)` \| [^|]+ \|([^|]*)\|", TEXT.split("## All settings")[1], re.MULTILINE))


def test_the_table_of_settings_is_that_of_the_files():
    asked, environ = settings("dask.yaml")
    secure, _ = settings("tls/dask.yaml")
    image = re.findall(r"^(?:ENV|   ) (\w+)=", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    scripts = [*DEPLOY.rglob("*"), *(ROOT / "scripts").glob("*.sh"), *(ROOT / "dkernel").rglob("*.py")]
    texts = [
        path.read_text() for path in scripts if path.is_file() and path.suffix not in (".pyc", ".nbc", ".nbi", ".md")
    ]
    own = set(re.findall(r"\b(?:DKERNEL|DASK)_[A-Z_]+\b", "\n".join(texts))) - {"DKERNEL_"}
    aws = {"AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}
    commands = [main.get_command(click.Context(main), name) for name in main.list_commands(click.Context(main))]
    options = {option.envvar for command in commands for option in command.params if option.envvar}
    assert {"DKERNEL_SEED", "DKERNEL_WORKERS"} <= options
    wanted = {*asked, *environ, *secure, *(name for name in image if name != "PATH"), *(own - options), *aws}
    assert sorted(wanted - set(ROWS)) == []
    assert sorted(set(ROWS) - wanted) == []
    # No variable of a script is by accident also an option.
    assert set(ROWS) & options == set()


def test_the_values_in_the_table_are_those_of_the_files():
    asked, environ = settings("dask.yaml")
    for name, value in {**asked, **environ}.items():
        shown = (
            {True: "true", False: "false", None: "null"}.get(value) if isinstance(value, bool | None) else str(value)
        )
        assert ROWS[name].strip() == shown, name


def test_what_the_file_recommends_is_what_dkernel_does_itself():
    asked, environ = settings("dask.yaml")
    assert {name: asked[name] for name in MEMORY_SETTINGS} == MEMORY_SETTINGS
    assert ENVIRONMENT.items() <= environ.items()
    assert {name: str(environ[name]) for name in ONE_HEAP} == ONE_HEAP


@pytest.mark.parametrize("file", ["dask.yaml", "tls/dask.yaml"])
def test_dask_knows_every_setting(file):
    for name in settings(file)[0]:
        assert dask.config.get(name, "unknown") != "unknown", name
