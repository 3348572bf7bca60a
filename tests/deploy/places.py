"""Where the files of deploy/ are, and how their commands are read: by the same parsers that would run them."""

import shlex
from pathlib import Path

import click
import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


def names(*endings: str) -> list[str]:
    """Files of deploy/, all or those with an ending, as paths inside it."""
    found = (p for p in DEPLOY.rglob("*") if p.is_file() and "__pycache__" not in p.parts)
    return sorted(p.relative_to(DEPLOY).as_posix() for p in found if not endings or p.name.endswith(endings))


def documents(name: str) -> list[dict]:
    """The documents of a YAML file of deploy/."""
    return list(yaml.safe_load_all((DEPLOY / name).read_text()))


def refusal(command: list[str]) -> str:
    """Why `dkernel ...` or `dask scheduler|worker ...` would refuse these arguments; empty when it would not."""
    program, action, *arguments = (Path(command[0]).name, *command[1:])
    try:
        if program == "dkernel":
            from dkernel.cli import main

            found = main.get_command(click.Context(main), action)
        else:
            from distributed.cli import dask_scheduler, dask_worker

            found = {"scheduler": dask_scheduler.main, "worker": dask_worker.main}.get(action)
        if found is None:
            return f"{program} has no command {action}"
        found.make_context(action, list(arguments))
    except click.ClickException as error:
        return f"{shlex.join(command)}: {error.format_message()}"
    except click.exceptions.Exit:
        pass
    return ""


def commands_in(text: str) -> list[list[str]]:
    """Every `dkernel COMMAND ...` and `dask scheduler|worker ...` of a shell script; variables stay words."""
    found = []
    for line in text.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars="&|;<>()")
        lexer.whitespace_split = True
        try:
            words = list(lexer)
        except ValueError:
            continue
        for i, word in enumerate(words[:-1]):
            if Path(word).name in ("dkernel", "dask") and words[i + 1] in (
                "train", "score", "evaluate", "show", "scheduler", "worker",
            ):  # fmt: skip
                stop = next((j for j in range(i, len(words)) if words[j][0] in "&|;<>()"), len(words))
                arguments = words[i:stop]
                # What is redirected by number ("2>log") leaves its number.
                found.append(arguments[:-1] if stop < len(words) and arguments[-1] == "2" else arguments)
    return found
