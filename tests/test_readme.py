"""The README: every block of code runs, and the table of options says what the command says."""

import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import click
import pytest

import dkernel
from dkernel.cli.train import RECIPE, train
from dkernel.features.landmarks import RULES
from dkernel.kernels import Kernel

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
FENCE = re.compile(
    r"(?:^<!-- (?P<mark>[^\n]*?) -->\n)?^```(?P<language>\w*)\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE
)
TOOLS = {"dkernel": "-m dkernel", "dask": "-m dask", "python": ""}


@dataclass(frozen=True)
class Example:
    """One block: its place in the README, its language and text, and why it is not run if it is not."""

    line: int
    language: str
    code: str
    mark: str

    @property
    def cluster(self) -> bool:
        return self.code.startswith("# cluster\n")


def examples() -> list[Example]:
    found = []
    for match in FENCE.finditer(TEXT):
        if match["language"] in ("bash", "python", "console"):
            line = TEXT.count("\n", 0, match.start("code")) + 1
            found.append(Example(line, match["language"], match["code"], match["mark"] or ""))
    return found


EXAMPLES = examples()
TO_RUN = [example for example in EXAMPLES if not example.mark.startswith("not run: ")]


class Reader:
    """Someone who types the blocks of the README one after the other in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.done = folder, set[int]()
        (folder / "bin").mkdir()
        for name, module in TOOLS.items():
            tool = folder / "bin" / name
            tool.write_text(f'#!/bin/sh\nexec "{sys.executable}" {module} "$@"\n')
            tool.chmod(0o755)
        (folder / "scripts").symlink_to(ROOT / "scripts")

    def reach(self, example: Example) -> None:
        """Run it, and before it those above it that it may build on."""
        for each in TO_RUN:
            if each.line < example.line and not each.cluster and each.language == "bash":
                self.run(each)
        self.run(example)

    def run(self, example: Example) -> None:
        if example.line in self.done:
            return
        self.done.add(example.line)
        code = example.code
        if example.language == "console":
            code = "".join(line[2:] + "\n" for line in code.splitlines() if line.startswith("$ "))
        python = example.language == "python"
        script = self.folder / f"line_{example.line}.{'py' if python else 'sh'}"
        script.write_text(code)
        command = [sys.executable, script.name] if python else ["bash", "-euo", "pipefail", script.name]
        ended, output = self._run(command)
        assert ended == 0, f"README.md, line {example.line}: exit code {ended}\n{output}"

    def _run(self, command: list[str]) -> tuple[int | str, str]:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])}
        environment["PATH"] = os.pathsep.join([str(self.folder / "bin"), environment["PATH"]])
        # A group of its own, so that nothing it started outlives it; a file, which nobody waits to see closed.
        with (self.folder / "output.txt").open("w+") as output:
            process = subprocess.Popen(
                command, cwd=self.folder, env=environment, stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
            try:
                code: int | str = process.wait(timeout=180)
            except subprocess.TimeoutExpired:
                code = "none within 180 s"
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            output.seek(0)
            return code, output.read()


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    return Reader(tmp_path_factory.mktemp("readme"))


@pytest.mark.parametrize(
    "example",
    [
        pytest.param(e, marks=[pytest.mark.cluster] if e.cluster else [], id=f"{e.language}-line-{e.line}")
        for e in TO_RUN
    ],
)
def test_every_block_runs(example, reader):
    reader.reach(example)


def test_what_is_not_run_says_why():
    left_out = [example for example in EXAMPLES if example not in TO_RUN]
    assert len(TO_RUN) >= 8
    assert len(left_out) <= 4
    for example in left_out:
        assert len(example.mark) > len("not run: ") + 10


def test_all_blocks_are_known():
    languages = {match["language"] for match in FENCE.finditer(TEXT)}
    assert languages <= {"bash", "python", "console", "mermaid", "text"}


def option_rows() -> list[str]:
    """How the row of each option of train begins: its name and values, and its default."""
    rows = []
    for option in train.params:
        if not isinstance(option, click.Option) or option.name == "help":
            continue
        default = RECIPE[option.name][1] if option.name in RECIPE else ""
        name = f"{option.opts[0]} {option.metavar or ''}".strip().replace("|", r"\|")
        rows.append(f"| `{name}` | {default} |".replace("|  |", "| |"))
    return rows


def test_the_table_of_options_is_that_of_the_command():
    section = TEXT.split("\n## Options of train\n")[1].split("\n## ")[0]
    found = [line for line in section.splitlines() if line.startswith("| `--")]
    wanted = option_rows()
    missing = [row for row in wanted if not any(line.startswith(row) for line in found)]
    assert missing == []
    assert len(found) == len(wanted)


def test_every_kernel_stands_in_the_table():
    section = TEXT.split("\n## Kernels, maps, landmarks\n")[1].split("\n## ")[0]
    table = "\n".join(line for line in section.splitlines() if line.startswith("|"))
    public = [getattr(dkernel, name) for name in dkernel.__all__]
    kernels = [cls.__name__ for cls in public if isinstance(cls, type) and issubclass(cls, Kernel)]
    assert len(kernels) >= 19
    assert [name for name in kernels if f"`{name}(" not in table] == []
    assert [rule for rule in RULES if f"| {rule} |" not in table] == []


def test_files_that_it_names_are_there():
    for name in set(re.findall(r"\bscripts/[\w/]+\.(?:py|sh)", TEXT)):
        assert (ROOT / name).exists(), name
