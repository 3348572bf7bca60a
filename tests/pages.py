"""The pages of the repository: their blocks of code, the outputs that they show, and someone who types them.

`python -m tests.pages` prints the tables of `dkernel/cli/OPTIONS.md`.
"""

import os
import re
import runpy
import signal
import subprocess
import sys
import traceback
import warnings
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

from dkernel.cli.help import group_options
from dkernel.cli.train import train_command
from dkernel.leaves.cells.parameters import Cells
from dkernel.model.local_settings import Grids
from tests.processes import ROOT, environment

FOLDERS = ("dkernel", "scripts", "tests")
PAGES = ["README.md", *sorted(str(path.relative_to(ROOT)) for name in FOLDERS for path in (ROOT / name).rglob("*.md"))]
ALL_PAGES = [*PAGES, "deploy/README.md"]  # whose blocks tests/deploy checks: they need clusters
LANGUAGES = {"bash", "bibtex", "python", "console", "mermaid", "text"}
FENCE = re.compile(
    r"(?:^<!-- (?P<mark>[^\n]*?) -->\n)?^```(?P<language>\w*)\n(?P<code>.*?)^```$"
    r"(?:\n\n?^```text\n(?P<output>.*?)^```$)?",
    re.DOTALL | re.MULTILINE,
)
WRITES = re.compile(
    r"--(?:out|report) ([\w./-]+)|cat > ([\w./-]+)|(?:save|to_csv|to_parquet|report)\([^)\n]*\"([^\"]+)\""
)
NUMBER = r"[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?"
MEASURED = r"\s*(?:s|ms|min|[KMG]iB|rows/s)\b"  # what another machine measures otherwise
RELATIVE = 0.03  # other processors round otherwise, and what is chosen by little may then be chosen otherwise
TOOLS = {"dkernel": "-m dkernel", "dask": "-m dask", "python": ""}


@dataclass(frozen=True)
class Example:
    """One block: its page and line, its language and text, the output shown, and why it is not run if it is not."""

    page: str
    line: int
    language: str
    code: str
    output: str
    mark: str

    @property
    def place(self) -> str:
        return f"{self.page}, line {self.line}"

    @property
    def cluster(self) -> bool:
        return self.code.startswith("# cluster\n")

    @property
    def written(self) -> set[str]:
        """Names of the files and folders that it leaves."""
        return {name for found in WRITES.findall(self.code) for name in found if name}

    def names(self, file: str) -> bool:
        """True if the file stands in its code."""
        return re.search(rf"(?<![\w.]){re.escape(file)}(?![\w.])", self.code) is not None

    @property
    def shell(self) -> bool:
        return self.language in ("bash", "console")


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks_of(page: str) -> list[Example]:
    """All blocks of a page, the outputs beside the code that makes them."""
    text, found = text_of(page), []
    for match in FENCE.finditer(text):
        line = text.count("\n", 0, match.start("code")) + 1
        code, output = match["code"], match["output"] or ""
        if match["language"] == "console":
            lines = code.splitlines(keepends=True)
            code = "".join(each[2:] for each in lines if each.startswith(("$ ", "> ")))
            output = "".join(each for each in lines if not each.startswith(("$ ", "> ")))
        found.append(Example(page, line, match["language"], code, output, match["mark"] or ""))
    return found


EXAMPLES = [each for page in PAGES for each in blocks_of(page) if each.language in ("bash", "python", "console")]
TO_RUN = [example for example in EXAMPLES if not example.mark.startswith("not run: ")]


def differs(shown: str, printed: str) -> str:
    """How an output differs from the one on the page, or nothing.

    `...` on the page is any text, alone on a line any lines. A number before a unit of time, memory or speed is any
    number; a fraction is one within RELATIVE; all else is the same.

    Examples
    --------
    >>> differs("accuracy 0.98 in 3 s\\n...\\n", "accuracy 0.979 in 40 s\\nand\\nmore\\n")
    ''
    >>> differs("12 rows", "13 rows")
    "'12' is shown and '13' printed"
    """
    pattern, wanted = "", []
    for line in shown.rstrip().splitlines():
        if line.strip() == "...":
            pattern += r"(?:.*\n)*?"
            continue
        at = 0
        for match in re.finditer(NUMBER, line):
            pattern += _literal(line[at : match.start()])
            wanted.append("" if re.match(MEASURED, line[match.end() :]) else match[0])
            pattern += f"({NUMBER})"
            at = match.end()
        pattern += _literal(line[at:].rstrip()) + r"[ ]*\n"
    found = re.fullmatch(pattern, printed.rstrip() + "\n")
    if found is None:
        return f"shown:\n{shown}\nprinted:\n{printed}"
    for here, there in zip(wanted, found.groups(), strict=True):
        if here and not _near(here, there):
            return f"{here!r} is shown and {there!r} printed"
    return ""


def _literal(text: str) -> str:
    return "[ ]+".join(".*?".join(map(re.escape, part.split("..."))) for part in re.split(" +", text))


def _near(shown: str, printed: str) -> bool:
    if not set(".e") & set(shown):
        return shown == printed
    a, b = (float(text.replace(",", "")) for text in (shown, printed))
    digit = 0.0 if "e" in shown else 10.0 ** -len(shown.partition(".")[2])
    return abs(a - b) <= max(RELATIVE * abs(a), digit)


class Reader:
    """Someone who types the blocks of the pages one after the other in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.done = folder, set[str]()
        (folder / "bin").mkdir()
        for name, module in TOOLS.items():
            tool = folder / "bin" / name
            tool.write_text(f'#!/bin/sh\nexec "{sys.executable}" {module} "$@"\n')
            tool.chmod(0o755)
        (folder / "scripts").symlink_to(ROOT / "scripts")

    def reach(self, example: Example) -> None:
        """Run it, and before it what it builds on: commands of README and blocks above it that write what it names."""
        for each in TO_RUN:
            above = each.page == example.page and each.line < example.line
            before = above or (each.shell and each.page == "README.md" != example.page)
            if before and not each.cluster and any(example.names(written) for written in each.written):
                self.reach(each)
        self.run(example)

    def run(self, example: Example) -> None:
        if example.place in self.done:
            return
        self.done.add(example.place)
        name = re.sub(r"\W+", "_", example.place)
        script = self.folder / f"{name}.{'py' if example.language == 'python' else 'sh'}"
        script.write_text(example.code)
        if example.language == "python" and not example.cluster:
            ended, output, errors = self._run_here(script)
        else:
            program = {".py": [sys.executable], ".sh": ["bash", "-euo", "pipefail"]}[script.suffix]
            ended, output, errors = self._run([*program, script.name])
        assert ended == 0, f"{example.place}: exit code {ended}\n{output}\n{errors}"
        if example.output:
            difference = differs(example.output, output)
            assert not difference, f"{example.place}: the output is another. {difference}\n{errors}"

    def _run_here(self, script: Path) -> tuple[int | str, str, str]:
        """Run a script as one of its own in this process, which has imported what most of its seconds would go to."""
        ended, output, errors, before = 0, StringIO(), StringIO(), Path.cwd()
        os.chdir(self.folder)
        try:
            with redirect_stdout(output), redirect_stderr(errors), warnings.catch_warnings():
                warnings.simplefilter("default")
                runpy.run_path(script.name, run_name="__main__")
        except BaseException:
            ended = 1
            errors.write(traceback.format_exc())
        finally:
            os.chdir(before)
        return ended, output.getvalue(), errors.getvalue()

    def _run(self, command: list[str]) -> tuple[int | str, str, str]:
        path = os.pathsep.join([str(self.folder / "bin"), os.environ["PATH"]])
        outputs = [self.folder / "output.txt", self.folder / "errors.txt"]
        # A group of its own, so that nothing it started outlives it; files, which nobody waits to see closed.
        with outputs[0].open("w") as output, outputs[1].open("w") as errors:
            process = subprocess.Popen(
                command, cwd=self.folder, env=environment(PATH=path), stdin=subprocess.DEVNULL, stdout=output,
                stderr=errors, start_new_session=True,
            )  # fmt: skip
            try:
                code: int | str = process.wait(timeout=180)
            except subprocess.TimeoutExpired:
                code = "none within 180 s"
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        return code, outputs[0].read_text(), outputs[1].read_text()


def option_table() -> str:
    """The options of train as a table for each group of its help."""
    parts = []
    for group, options in group_options(train_command.params).items():
        lines = [f"## {group}", "", "| option | meaning |", "|---|---|"]
        for option in options:
            names = ", ".join(sorted(option.opts, key=len))
            cells = (f"`{names} {option.metavar or ''}".strip() + "`", option.help or "")
            lines.append("| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |")
        parts.append("\n".join(lines))
    lines = ["## Settings of --local", "", "| setting | meaning |", "|---|---|"]
    for stage in (Grids, Cells):
        for p in stage.table().values():
            cells = (f"`{stage.word}({p.name}={p.metavar})`", p.text_of_option())
            lines.append("| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |")
    return "\n\n".join([*parts, "\n".join(lines)]) + "\n"


if __name__ == "__main__":
    print(option_table(), end="")
