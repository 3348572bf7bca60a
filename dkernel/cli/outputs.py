"""Check of the outputs of a command against its inputs, before either is opened."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from dkernel.cli.options import CONFIG

_READ = {"model": "MODEL", "scheduler_file": "--scheduler-file"}
_READ |= {name: f"--{name.replace('_', '-')}" for name in ("tls_ca_file", "tls_cert", "tls_key")}
_SHARED = ("checkpoint", "scratch")  # folders in which other files may lie


def check_outputs(values: Mapping[str, Any]) -> None:
    """Refuse options that name one file as output and input, or as two outputs; nothing is written before."""
    from dkernel.cli.run_record import default_record
    from dkernel.data.writers.collisions import Location, check_apart, inputs

    read = [Location(values[name], option) for name, option in _READ.items() if values.get(name)]
    read += [Location(name, "--import") for name in values.get("import", ()) if name.endswith(".py")]
    if (config := click.get_current_context().meta.get(CONFIG)) is not None:
        read.append(Location(config, "--config"))
    read += inputs(values.get("data", ()))
    written = [Location(values[name], f"--{name}") for name in ("out", "report", "done") if values.get(name)]
    if values.get("record"):
        written.append(Location(values["record"], "--record"))
    elif values.get("out") and "record" in values:
        written.append(Location(str(default_record(values["out"])), "the run record"))
    written += [Location(values[name], f"--{name}", shared=True) for name in _SHARED if values.get(name)]
    check_apart(read, written)
    for name in ("record", "done"):
        if values.get(name):
            check_writable(f"--{name}", values[name])


def check_model_place(values: Mapping[str, Any], begun: bool = False) -> None:
    """Refuse an --out that no model can be written to, or that holds one already and is not to be replaced.

    Parameters
    ----------
    begun : a checkpoint holds the run, which is continued or refused: it may have been stopped after its model was
        written
    """
    from dkernel.data.store import file_of
    from dkernel.errors import DataError

    out = values["out"]
    check_writable("--out", out)
    store, name = file_of(out)
    if not values["overwrite"] and not begun and store.has(name):
        raise DataError(f"{out} already exists. Add --overwrite to replace it, or choose another name.")


def check_writable(option: str, path: str) -> None:
    """Find out before the work if something would keep a file from being written after it."""
    from dkernel.data.store import FolderStore, file_of
    from dkernel.errors import DataError

    store, name = file_of(path)
    if isinstance(store, FolderStore) and Path(store.path(name)).is_dir():
        raise DataError(f"{path}: this is a folder; {option} names a file.")
    store.check_writable()
