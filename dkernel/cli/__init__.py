"""The command `dkernel` (also `dask kernel`): one file a command, imported when it is asked for.

A command reads its options, calls one function of the run layer and prints what that returns. What an error means for
the exit code is in `exits`, what the commands have in common in `options`.
"""

import codecs
import io
import sys
from importlib import import_module
from typing import Any

import click

from dkernel.errors import UnsupportedError, escape_controls, mask_urls
from dkernel.leaf_table import LEAF_OF_COMMAND, has_leaf, load_leaf
from dkernel.numerics.allocator import use_one_arena

__all__ = ["main"]

_COMMANDS = (
    "train",
    "tune",
    "score",
    "evaluate",
    "update",
    "conformalize",
    "show",
    "export",
    "doctor",
    "watch",
    "cancel",
)


class _Table(click.Group):
    """The commands by name; a command's module is imported when it is run or listed."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return [name for name in _COMMANDS if name not in LEAF_OF_COMMAND or has_leaf(LEAF_OF_COMMAND[name])]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _COMMANDS:
            return None
        if cmd_name in LEAF_OF_COMMAND:
            try:
                module = load_leaf(LEAF_OF_COMMAND[cmd_name], cmd_name, f"dkernel {cmd_name}")
            except UnsupportedError as error:
                raise click.ClickException(str(error)) from None
        else:
            module = import_module(f"dkernel.cli.{cmd_name}")
        command: click.Command = getattr(module, f"{cmd_name}_command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in _COMMANDS and not args[0].startswith("-"):
            if args[0] == "jobs":  # of the release before
                ctx.fail("The command jobs is gone: dkernel watch FOLDER lists the runs of a folder.")
            from dkernel.numerics.validation import nearest_name

            ctx.fail(f"There is no command {args[0]!r}.{nearest_name(args[0], _COMMANDS)}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.ClickException as error:
            error.message = escape_controls(mask_urls(error.message))  # type: ignore[misc]
            raise
        except KeyboardInterrupt:  # while a command is imported; from then on it ends in its own way
            ctx.exit(130)


def _print_version(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked:
        from dkernel.streaming.execution.versions import versions

        click.echo(f"dkernel {versions()['dkernel']}")
        ctx.exit()


@click.group(name="kernel", cls=_Table, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Print the version."
)
def main() -> None:
    """Kernel machines for data larger than memory, on Dask.

    \b
    dkernel train data.parquet --label y --out model.safetensors
    dkernel tune data.parquet --label y --out model.safetensors --budget 10min
    dkernel evaluate model.safetensors test.parquet --label y
    dkernel score model.safetensors new.parquet --out scores.parquet
    dkernel update model.safetensors new.parquet --out model-2.safetensors
    dkernel conformalize model.safetensors known.parquet --group site --out model-3.safetensors
    dkernel show model.safetensors
    dkernel show model.safetensors --markdown --out README.md
    dkernel export model.safetensors --out model.onnx
    dkernel doctor --scheduler tcp://host:8786
    dkernel watch model.safetensors
    dkernel watch models/
    dkernel cancel model.safetensors

    Each runs on the cores of this machine, or with --scheduler on a Dask cluster. Exit codes: 0 done, 1 failed,
    2 options, 65 data, 75 the same command can be run again, 130 and 143 stopped.
    """
    use_one_arena()
    _print_any_name()


def _print_any_name() -> None:
    """Let stdout take every file name: bytes that are no text pass unchanged, unprintable characters are escaped."""

    def handled(error: UnicodeError) -> tuple[str | bytes, int]:
        try:
            return codecs.lookup_error("surrogateescape")(error)
        except UnicodeError:
            return codecs.lookup_error("backslashreplace")(error)

    codecs.register_error("dkernel", handled)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="dkernel")
