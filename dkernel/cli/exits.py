"""What an error means for the caller of a command: an exit code and one message, with a traceback only on request.

0 done   1 failed   2 options   65 data   75 can be run again   130 / 143 stopped by SIGINT / SIGTERM
"""

import json
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import click

from dkernel.errors import ClusterError, DataError, DKernelError, ModelFileError, RecipeError, UnsupportedError

__all__ = ["BAD_DATA", "Job", "Stopped", "code_of"]

BAD_DATA = 65

# The first that fits. A recipe or a combination that means nothing is mended by other options.
_CODES: tuple[tuple[type[BaseException], int], ...] = (
    (DataError, BAD_DATA),
    (ModelFileError, BAD_DATA),
    (FileNotFoundError, BAD_DATA),
    (RecipeError, 2),
    (UnsupportedError, 2),
    (ClusterError, 75),
    (DKernelError, 1),
)


class Stopped(BaseException):
    """SIGTERM arrived: no handler of ordinary errors may swallow it."""


def code_of(error: BaseException) -> int:
    """Exit code for an error that ended a command.

    Examples
    --------
    >>> code_of(DataError("no column 'y'")), code_of(MemoryError()), code_of(KeyboardInterrupt())
    (65, 1, 130)
    """
    if isinstance(error, KeyboardInterrupt):
        return 130
    if isinstance(error, Stopped):
        return 143
    return next((code for kind, code in _CODES if isinstance(error, kind)), 1)


class Job(click.Command):
    """A command whose errors end in an exit code and one message instead of a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with _signals(), _warnings(bool(ctx.params.get("quiet"))):
                return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError, SystemExit):
            raise
        except BaseException as error:
            _report(error, ctx)
            ctx.exit(code_of(error))


def _report(error: BaseException, ctx: click.Context) -> None:
    if ctx.params.get("debug"):
        click.echo("".join(traceback.format_exception(error)), err=True, nl=False)
    message = _message(error)
    click.echo(f"dkernel {ctx.info_name}: {message}", err=True)
    if ctx.params.get("json"):
        kind = type(error).__name__
        click.echo(json.dumps({"error": {"type": kind, "message": message}, "exit_code": code_of(error)}))


def _message(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "stopped by SIGINT; nothing was written."
    if isinstance(error, Stopped):
        return "stopped by SIGTERM; nothing was written."
    if isinstance(error, DKernelError):
        return str(error)
    if isinstance(error, OSError):
        return f"{error.filename or 'the operating system'}: {error.strerror or error}."
    if isinstance(error, MemoryError):
        return "the client ran out of memory. Use fewer --n-components, or a machine with more memory."
    return f"{type(error).__name__}: {error}. This should not happen: run the command again with --debug and report it."


@contextmanager
def _signals() -> Iterator[None]:
    """The first SIGINT or SIGTERM unwinds the stack, closing clusters and staging; the second kills."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, _: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        raise KeyboardInterrupt if number == signal.SIGINT else Stopped

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _warnings(quiet: bool) -> Iterator[None]:
    """Warnings as one line on stderr, without the place in the source, which means nothing to a user."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        if not quiet:
            print(f"warning: {message}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield
