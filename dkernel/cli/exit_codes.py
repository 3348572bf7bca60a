"""Errors of a command: an exit code and one message, with a traceback on request.

0 done   1 failed   2 options   65 data   75 can be run again   130 / 143 stopped by SIGINT / SIGTERM

A run with a checkpoint that SIGTERM stops (a preemption, the end of a time slot) is one that can be run again: 75.
"""

import gc
import json
import os
import shlex
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

import click

from dkernel.cli.help import Grouped, in_options
from dkernel.cli.say import say
from dkernel.data.failures import RefusedWorkerError
from dkernel.errors import (
    NO_ROOM,
    ClusterError,
    DataError,
    DKernelError,
    MemoryBudgetError,
    ModelFileError,
    RecipeError,
    UnknownCategoriesWarning,
    UnsupportedError,
    mask_urls,
)
from dkernel.numerics.resource_limits import check_address_space

BAD_DATA, AGAIN = 65, 75  # the numbers of sysexits.h: EX_DATAERR, EX_TEMPFAIL
ASKED = 3.0  # seconds in which a checkpoint says what it holds: a run that is stopped has GRACE seconds
GRACE = 8.0  # seconds after a signal in which a run ends; job schedulers kill after 10 or 30
_SOON = 0.01  # seconds from a signal that was lost to the next

# The first type that fits decides. An invalid recipe or combination needs other options.
_CODES: tuple[tuple[type[BaseException], int], ...] = (
    (DataError, BAD_DATA),
    (ModelFileError, BAD_DATA),
    (FileNotFoundError, BAD_DATA),
    (RecipeError, 2),
    (UnsupportedError, 2),
    (RefusedWorkerError, 1),  # of all workers: the same command would end the same way
    (ClusterError, AGAIN),
    (DKernelError, 1),
    (MemoryError, AGAIN),  # others may have had it, and a run that goes on from a checkpoint needs less
)


class Stopped(BaseException):
    """SIGTERM arrived; ordinary error handlers do not catch this."""


class Paused(Stopped):
    """SIGTERM arrived, and a checkpoint holds the progress."""


def exit_code(error: BaseException) -> int:
    """Exit code for an error that ended a command.

    Examples
    --------
    >>> exit_code(DataError("no column 'y'")), exit_code(MemoryError()), exit_code(KeyboardInterrupt())
    (65, 75, 130)
    """
    if isinstance(error, KeyboardInterrupt):
        return 130
    if isinstance(error, Stopped):
        return AGAIN if isinstance(error, Paused) else 143
    if isinstance(error, OSError) and error.errno is not None:
        from dkernel.streaming.execution.base import may_pass

        if may_pass(error):
            return AGAIN
    return next((code for kind, code in _CODES if isinstance(error, kind)), 1)


def public_name(error: BaseException) -> str:
    """Return the name of the class of `dkernel.errors` that an error is one of, or else that of its own."""
    kinds = (each.__name__ for each in type(error).__mro__ if each.__module__ == DKernelError.__module__)
    return next(kinds, type(error).__name__)


class ExitCodeCommand(Grouped):
    """A command whose errors end in an exit code and one message instead of a traceback."""

    when_stopped = "stopped by {}; nothing was written."

    def invoke(self, ctx: click.Context) -> Any:
        checkpoint = ctx.params.get("checkpoint") is not None
        try:
            with (
                _pause_collector(),
                _signals(Paused if checkpoint else Stopped),
                _warnings(bool(ctx.params.get("quiet"))),
            ):
                check_address_space()
                if ctx.params.get("import"):
                    from dkernel.streaming.execution.user_modules import import_modules

                    import_modules(ctx.params["import"])
                return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError, SystemExit):
            raise
        except BaseException as error:
            _report(error, ctx)
            if isinstance(error, KeyboardInterrupt | Stopped):
                threading.Thread(target=_end_process, args=(exit_code(error),), daemon=True).start()
            ctx.exit(exit_code(error))


@contextmanager
def _pause_collector() -> Iterator[None]:
    """Keep the garbage collector from objects that stay: of imports, until `start_collector`, and of all at the end."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
        gc.freeze()


def start_collector() -> None:
    """Let the garbage collector run from now on, over what comes after the imports."""
    gc.freeze()
    gc.enable()


def _end_process(code: int) -> None:
    """Ends a stopped process whose last thread does not end.

    A signal between the start of a pool's thread and its entry in the list of those that are woken at exit leaves a
    thread that waits for ever, and Python waits for it.
    """
    threading.main_thread().join()
    time.sleep(GRACE)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _report(error: BaseException, ctx: click.Context) -> None:
    if ctx.params.get("debug"):
        say(mask_urls("".join(traceback.format_exception(error)), str(ctx.params)), err=True, whole=True)
    message, code, checkpoint = _message(error, ctx), exit_code(error), ctx.params.get("checkpoint")
    if code == AGAIN and checkpoint is not None and not isinstance(error, Stopped):
        saved = _describe_checkpoint(checkpoint)
        message += f" {saved[0].upper()}{saved[1:]}."
    if code == AGAIN or (code == 130 and checkpoint is not None):
        message += f" To continue: {_again(ctx)}"
    message = mask_urls(message, str(ctx.params))  # a library may have repeated a part of an address
    say(f"dkernel {ctx.info_name}: {message}", err=True)
    if ctx.params.get("json"):
        click.echo(json.dumps({"error": {"type": public_name(error), "message": message}, "exit_code": code}))


def _again(ctx: click.Context) -> str:
    """The command that continues this run."""
    name = str(ctx.info_name)
    given = sys.argv[sys.argv.index(name) + 1 :] if name in sys.argv else ["..."]
    if ctx.params.get("checkpoint") is not None and not ctx.params.get("resume"):
        given = [*given, "--resume"]
    return f"{ctx.command_path} {shlex.join(given)}"


def _describe_checkpoint(checkpoint: str) -> str:
    try:
        from dkernel.data.failures import answer_in_time
        from dkernel.training.checkpoint import Checkpoint

        holds = answer_in_time(lambda: Checkpoint(checkpoint).holds_a_run, ASKED)
    except Exception:  # a store that cannot be reached may be why the run ends, or a signal has broken an import off
        return f"what was saved is in the checkpoint in {checkpoint}"
    return f"the checkpoint in {checkpoint} holds the progress" if holds else f"nothing is saved in {checkpoint} yet"


def _message(error: BaseException, ctx: click.Context) -> str:
    if isinstance(error, KeyboardInterrupt | Stopped):
        number = "SIGINT" if isinstance(error, KeyboardInterrupt) else "SIGTERM"
        if (checkpoint := ctx.params.get("checkpoint")) is not None:
            return f"stopped by {number}; {_describe_checkpoint(checkpoint)}."
        return getattr(ctx.command, "when_stopped", ExitCodeCommand.when_stopped).format(number)
    if isinstance(error, RecipeError | UnsupportedError | MemoryBudgetError | DataError):
        return in_options(str(error), ctx.command)
    if isinstance(error, DKernelError):
        return str(error)
    if isinstance(error, OSError):
        if error.errno in NO_ROOM:
            where = error.filename or "the output"
            return f"{where}: no room to write ({error.strerror}). Make room, or choose another place."
        return f"{error.filename or 'the operating system'}: {error.strerror or error}."
    if isinstance(error, MemoryError):
        return (
            "a process ran out of memory. If that comes again, use fewer --n-components, or a machine with more memory."
        )
    return f"{type(error).__name__}: {error}. This should not happen: run the command again with --debug and report it."


@contextmanager
def _signals(stopped: type[Stopped]) -> Iterator[None]:
    """The first SIGINT or SIGTERM unwinds the stack, closing clusters and staging; the second kills.

    Python drops what a handler raises while a finalizer or a callback of a weak reference runs, and tells its hook of
    that: the hook sends the signal again. If code catches the exception, the deadline ends the process.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    raised: dict[int, BaseException] = {}
    sent: list[threading.Timer] = []
    main, tell = threading.get_ident(), sys.unraisablehook

    def stop(number: int, _: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        raised[number] = KeyboardInterrupt() if number == signal.SIGINT else stopped()
        raise raised[number]

    def send_again(dropped: Any) -> None:
        for number, error in raised.items():
            if dropped.exc_value is error:
                signal.signal(number, stop)
                sent.append(threading.Timer(_SOON, signal.pthread_kill, (main, number)))
                sent[-1].start()
                return
        tell(dropped)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    sys.unraisablehook = send_again
    try:
        with _deadline({signal.SIGINT: KeyboardInterrupt(), signal.SIGTERM: stopped()}):
            yield
    finally:
        for timer in sent:
            timer.cancel()
        sys.unraisablehook = tell
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _deadline(errors: Mapping[signal.Signals, BaseException]) -> Iterator[None]:
    """Ends the process GRACE seconds after a signal, whatever it is busy with: what lies on the disk is whole.

    Python calls a handler when the main thread is between two of its instructions, which a long call of BLAS puts off;
    the number of the signal is written to a pipe at once.

    Parameters
    ----------
    errors : signal -> what it raises, which has the exit code
    """
    read, write = os.pipe()
    os.set_blocking(write, False)
    over = threading.Event()

    def watch() -> None:
        while numbers := os.read(read, 64):
            for number, error in errors.items():
                if number in numbers and not over.wait(GRACE):
                    how = " Continue with --resume, from what the checkpoint holds." * isinstance(error, Paused)
                    os.write(2, f"dkernel: stopped by {number.name}.{how}\n".encode())
                    os._exit(exit_code(error))

    thread = threading.Thread(target=watch, name="dkernel-deadline", daemon=True)
    before = signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    thread.start()
    try:
        yield
    finally:
        over.set()
        signal.set_wakeup_fd(before)
        os.close(write)
        thread.join()
        os.close(read)


@contextmanager
def _warnings(quiet: bool) -> Iterator[None]:
    """Warnings as one line on stderr, without the place in the source, which means nothing to a user.

    With --quiet those remain that say that the result is probably wrong.
    """

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        if not quiet or isinstance(message, UnknownCategoriesWarning):
            say(f"warning: {message}", err=True)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield
