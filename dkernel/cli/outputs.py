"""Check of the outputs of a command against what it reads, before either is opened."""

import errno
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from dkernel.cli.options import named_files
from dkernel.leaf_table import load_leaf


def check_outputs() -> None:
    """Refuse options that name one file as output and input, or as two outputs; nothing is written before."""
    from dkernel.data.writers.collisions import Location, check_apart, inputs

    ctx = click.get_current_context()
    read, written = [], []
    for param, use, paths in named_files(ctx):
        option = max(param.opts, key=len) if isinstance(param, click.Option) else param.human_readable_name.rstrip(".")
        if use in ("written", "folder"):
            written += [Location(path, option, shared=use == "folder") for path in paths]
        elif use == "data":
            read += inputs(paths, option)
        else:
            read += [Location(path, option) for path in paths if use == "read" or path.endswith(".py")]
    written += [Location(path, what) for path, what in _unnamed_outputs(ctx.params)]
    check_apart(read, written)
    for output in written:
        _check_name(output.option, output.path)
    for name in ("record", "done"):
        if ctx.params.get(name) and not ctx.params.get("detach"):  # of a job a worker finds out
            check_writable(f"--{name}", ctx.params[name])


def _check_name(option: str, path: str) -> None:
    """Refuse a name that the file system does not take, a device, and an address of no file or with a key."""
    from dkernel.data.store import check_address, is_url
    from dkernel.data.writers.atomic import check_no_device
    from dkernel.errors import DataError

    try:
        if is_url(path):
            check_address(path)
        else:
            check_no_device(path)
            os.lstat(path)
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise DataError(
                f"{path}: the name of {option} is too long for this file system. Choose a shorter one."
            ) from None


def _unnamed_outputs(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The files that a command writes beside those that its options name, each with what it is."""
    out, record = values.get("out"), values.get("record")
    if out and not record and "record" in values:
        from dkernel.cli.run_record import default_record

        yield (record := str(default_record(out))), "the run record"
    if record and values.get("detach"):
        names = load_leaf("jobs", "follow", "--detach")
        yield names.find_log(record), "the log of the job"
        yield names.cancel_file(record), "the file that ends the job"


def check_model_path(values: Mapping[str, Any], begun: bool = False) -> None:
    """Refuse an --out that no model can be written to, or that holds one already and is not to be replaced.

    Parameters
    ----------
    begun : a checkpoint holds the run, which is continued or refused: it may have been stopped after its model was
        written
    """
    from dkernel.data.store import locate
    from dkernel.errors import DataError

    out = values["out"]
    check_writable("--out", out)
    store, name = locate(out)
    if not values["overwrite"] and not begun and store.has(name):
        raise DataError(f"{out} already exists. Add --overwrite to replace it, or choose another name.")


def check_report(path: str | None) -> None:
    """Refuse the page of --report, if one is asked for, that could not be drawn or written after the work."""
    if path:
        load_leaf("report", "report", "--report").require_matplotlib()
        check_writable("--report", path)


def check_writable(option: str, path: str) -> None:
    """Find out before the work if something would keep a file from being written after it."""
    from dkernel.data.store import FolderStore, locate
    from dkernel.errors import DataError

    store, name = locate(path)
    if isinstance(store, FolderStore) and Path(store.path(name)).is_dir():
        raise DataError(f"{path}: this is a folder; {option} names a file.")
    store.check_writable()
