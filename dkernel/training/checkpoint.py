"""Checkpoints: a folder or a URL stores the progress of a fit, which continues from it to the same bytes.

    survey-part-3                                   the fourth sixteenth of a survey that is not finished
    survey, choose, landmarks, prepare              the results of steps, each written once
    rounds-00000012                                 the state of a solver after 12 steps, every K rounds of a pass
                                                    or after each reading of all rows; the last two are kept
    result                                          the result of a finished fit; all other files are removed

Every file, checkpoint-NAME.safetensors, has the format of `dkernel.model.tensor_file`, stores the values of
`serialization.py`, and names its run by recipe, data and versions. A fit is a chain of pure functions of these, so any
whole file of the same run can be used without the others. A damaged file is ignored with a warning, and its content is
computed again.
"""

import errno
import fnmatch
import hashlib
import os
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from dkernel.data.source import Source
from dkernel.data.store import FolderStore, Store, open_store
from dkernel.data.writers.atomic import explain_os_error, explain_os_errors, lock_file
from dkernel.errors import (
    ClusterError,
    DataError,
    DigitsError,
    DKernelError,
    DKernelWarning,
    ModelFileError,
    RecipeError,
)
from dkernel.model.journal import Journal, State
from dkernel.model.recipe import Recipe
from dkernel.model.serialization import decode_value, encode_value
from dkernel.model.tensor_file import open_tensors, read_document, read_tensors, write_tensors
from dkernel.numerics.fused import processor
from dkernel.numerics.resource_limits import format_bytes
from dkernel.numerics.sparse_rows import named
from dkernel.streaming.execution.versions import versions

T = TypeVar("T")

EVERY = 4
"""Rounds between two checkpoints: a killed run repeats at most so many, a sixteenth of a pass of 64 rounds."""

FILE_VERSION = 2  # version of the files; VALUES_VERSION, the version of the values in them, is part of the run
VALUES_VERSION = 7  # raised when the stored values change
_BEGIN, _END = "checkpoint-", ".safetensors"
NAME = f"{_BEGIN}{{}}{_END}"
SEARCH, FIT = "search", "fit"
"""Folders of the two parts of a search."""
_NO_STATE = (
    "A model file holds no state of a solver, so no training can continue from it. Give --checkpoint the folder of the "
    "training that was stopped, or a new one."
)
SHOWN_FILES = 5  # changed files that a refusal names


@dataclass(frozen=True)
class Checkpoint:
    """Folder with the progress of a fit.

    Parameters
    ----------
    folder : path, which is made if it does not exist, or a URL such as s3://bucket/run. A folder holds one fit
    resume : continue the stored fit; False refuses a folder that holds one

    Examples
    --------
    >>> Checkpoint("no such folder").begun
    False
    """

    folder: str | os.PathLike[str]
    resume: bool = True

    @property
    def store(self) -> Store:
        """The store of the files."""
        return open_store(self.folder)

    @property
    def begun(self) -> bool:
        """True if the folder holds files of a fit."""
        return bool(_files(self.store))

    @property
    def holds_a_run(self) -> bool:
        """True if the folder holds files of a fit, or of a search with its fit."""
        return self.begun or any(self.within(name).begun for name in (SEARCH, FIT))

    @property
    def run(self) -> Mapping[str, Any] | None:
        """Settings that decide the result of the stored fit, from `describe_run`; None if no file can be read."""
        store = self.store
        for file in _files(store):
            try:
                return _document(store, file)["checkpoint"]["run"]  # type: ignore[no-any-return]
            except (ModelFileError, LookupError, TypeError):
                continue
        return None

    def within(self, name: str) -> "Checkpoint":
        """Return the checkpoint of one of several runs, in its own folder."""
        return replace(self, folder=self.store.within(name).where)

    def clear(self) -> None:
        """Remove the files of a fit that has to start again."""
        store = self.store
        for file in _files(store):
            store.remove(file)

    def check(self) -> None:
        """Refuse a checkpoint that would fail later, before anything is read or written."""
        if isinstance(store := self.store, FolderStore):
            _check_folder(store.folder)
        else:
            store.check_writable()
        if self.begun and not self.resume:
            raise RecipeError(
                f"{store.where}: a checkpoint already exists here. Add --resume to continue it, or give --checkpoint "
                "another folder to start from scratch."
            )

    @contextmanager
    def open(self, run: Mapping[str, Any], nbytes: int, progress: Any) -> Iterator["FolderJournal"]:
        """Open the journal of this run for one process at a time; a URL has no locks, so two write the same files.

        Parameters
        ----------
        run : everything that decides the result, from `describe_run`
        nbytes : most bytes of the checkpoint
        """
        self.check()
        store = self.store
        with _alone(store.folder, nbytes) if isinstance(store, FolderStore) else nullcontext():
            try:
                yield FolderJournal(self, run, progress)
            except DigitsError:  # the same run starts again, in another dtype
                self.clear()
                raise


class FolderJournal(Journal):
    """The journal of a run that stores everything in a folder; `Checkpoint.open` makes it."""

    keeps = True

    def __init__(self, checkpoint: Checkpoint, run: Mapping[str, Any], progress: Any) -> None:
        self.store, self.progress = checkpoint.store, progress
        self.run = dict(run)
        self._state: tuple[str, State] | None = None
        self._saved: list[str] = []  # names of the whole files of states, oldest first
        self._parts: dict[str, int] = {}
        files = _files(self.store)
        others = {self._check(file) for file in files} - {processor.kind()}
        if others:
            progress.message(
                f"checkpoint: begun on processors with {' and '.join(sorted(others))}, and this one has "
                f"{processor.kind()}: the model's last digits may be others than those of a fit on one kind"
            )
        if not files and checkpoint.resume:
            progress.message(f"checkpoint: nothing in {self.store.where} yet, starting from scratch")

    def step(self, name: str, compute: Callable[[], T]) -> T:
        stored: T | None = self.stored(name)
        if stored is not None:
            self.resumed = f"the end of the step {name!r}"
            return stored
        result = compute()
        self._write(name, result)
        self._remove(_part(name, "*"))
        return result

    def stored(self, name: str) -> Any:
        file = NAME.format(name)
        if not self.store.has(file):
            return None
        path = self.store.path(file)
        try:
            with open_tensors(path) as opened:
                document = read_document(opened, path, FILE_VERSION)
                arrays = read_tensors(opened, document, path)
            return decode_value(document["checkpoint"]["value"], arrays)
        except (ModelFileError, LookupError, TypeError, ValueError):
            warnings.warn(
                f"{path} is damaged or truncated. It is not used; its content is computed again, or read from "
                "the checkpoint before it.",
                DKernelWarning,
                stacklevel=2,
            )
            return None

    def parts(self, name: str) -> list[Any]:
        parts: list[Any] = []
        while (value := self.stored(_part(name, len(parts)))) is not None:
            parts.append(value)
        # Parts after a missing or damaged one do not continue the part that replaces it.
        self._remove(_part(name, "*"), but=[_part(name, number) for number in range(len(parts))])
        self._parts[name] = len(parts)
        if parts:
            self.resumed = f"the middle of the step {name!r}"
        return parts

    def add_part(self, name: str, value: Any) -> None:
        self._write(_part(name, self._parts[name]), value)
        self._parts[name] += 1

    def last_state(self, name: str, where: Callable[[Any], str]) -> State | None:
        self._state, self._saved = None, []
        for file in reversed(_files(self.store, f"{name}-{8 * '[0-9]'}")):
            step = file.removeprefix(_BEGIN).removesuffix(_END)
            state: State | None = self.stored(step)
            if state is not None:
                self._state, self._saved = (name, state), [step]
                self.resumed = where(state)
                self.progress.message(f"resumed from {self.resumed}")
                return state
        return None

    def save_state(self, name: str, state: State) -> None:
        self._state = name, state
        if state.done % EVERY == 0:
            self._save(name, state)

    @contextmanager
    def save_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            if self._state is not None and _step(self._state[0], self._state[1].steps) not in self._saved:
                # The error that ended the solver matters more; the checkpoint before this one stays.
                with suppress(OSError, DKernelError):
                    self._save(*self._state)
            raise

    def finish(self, result: Any) -> None:
        self._write("result", result)
        self.tidy()

    def tidy(self) -> None:
        self._remove("*", but=["result"])

    def _save(self, name: str, state: State) -> None:
        file = _step(name, state.steps)
        self._write(file, state)
        self._saved = [*self._saved[-1:], file]
        self._remove(f"{name}-{8 * '[0-9]'}", but=self._saved)

    def _remove(self, names: str, but: Sequence[str] = ()) -> None:
        stay = [NAME.format(name) for name in but]
        for file in _files(self.store, names):
            if file not in stay:
                self.store.remove(file)

    def _write(self, name: str, value: Any) -> None:
        tree, arrays = encode_value(value)
        content = {"run": self.run, "stage": name, "value": tree, "processor": processor.kind()}
        path = self.store.path(NAME.format(name))
        with explain_os_errors(path):
            write_tensors(path, {"protocol": FILE_VERSION, "checkpoint": content}, arrays)

    def _check(self, file: str) -> str:
        """Refuse a file of another run; return the kind of processor that wrote it, or this kind if it is damaged."""
        try:
            document = _document(self.store, file)
        except ModelFileError:
            return processor.kind()
        if "checkpoint" not in document:
            raise DataError(f"{self.store.path(file)}: this is a model, not a checkpoint. {_NO_STATE}")
        _refuse_other(self.store.where, document["checkpoint"]["run"], self.run)
        return str(document["checkpoint"].get("processor", processor.kind()))


def _files(store: Store, names: str = "*") -> list[str]:
    """Return the files of a checkpoint whose names match, in their order."""
    return fnmatch.filter(store.names(), NAME.format(names))


def _document(store: Store, file: str) -> dict[str, Any]:
    path = store.path(file)
    with open_tensors(path, all_of_it=False) as opened:
        return read_document(opened, path, FILE_VERSION)


def describe_run(source: Source, recipe: Recipe, landmarks: str = "") -> dict[str, Any]:
    """Return everything that decides a fit's result, as JSON; runs with equal values can continue each other.

    Parameters
    ----------
    landmarks : digest of the given landmarks
    """
    chunks = repr([unit.rows for unit in source.units]).encode()
    return {
        "format": VALUES_VERSION,
        "recipe": recipe.to_dict(),
        "landmarks": landmarks,
        "data": {
            "content": source.fingerprint or source.token,
            "rows": source.n_rows,
            "chunks": hashlib.sha256(chunks).hexdigest(),
            "columns": list(named(source.table_columns)),
            **({} if source.encoding is None else {"encoding": source.encoding.to_json()}),
            **({"settled": True} if source.in_dtype is None and source.wide else {}),
            "label": source.label,
            "weight": source.weight,
            "files": dict(zip(source.files, source.stamps, strict=False)),
        },
        "versions": versions(),
    }


def _refuse_other(folder: str, there: Mapping[str, Any], here: Mapping[str, Any]) -> None:
    if there == here:
        return
    data = _changed_data(there["data"], here["data"])
    rest = [f"{name} was {old!r} and is {new!r}" for name, old, new in _changes(there["recipe"], here["recipe"])]
    if there["landmarks"] != here["landmarks"]:
        rest.append("the given landmarks differ")
    rest += [f"{name} was {old} and is {new}" for name, old, new in _changes(there["versions"], here["versions"])]
    if there["format"] != here["format"]:
        rest.append("another dkernel wrote it")
    error = DataError if data else RecipeError
    raise error(
        f"{folder}: the checkpoint here is of another run: {'; '.join(data + rest)}. Use the data and options of "
        "that run, or give --checkpoint another folder to start from scratch."
    )


def _changes(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    names = dict.fromkeys([*there, *here])
    return [(name, there.get(name), here.get(name)) for name in names if there.get(name) != here.get(name)]


def _changed_data(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    differences, old, new = [], there["files"], here["files"]
    for what, names in (
        ("changed", [name for name in old if name in new and new[name] != old[name]]),
        ("not given now", [name for name in old if name not in new]),
        ("new", [name for name in new if name not in old]),
    ):
        if names:
            more = f" and {len(names) - SHOWN_FILES:,} more" if len(names) > SHOWN_FILES else ""
            differences.append(f"{what}: {', '.join(names[:SHOWN_FILES])}{more}")
    for name in ("rows", "label", "weight"):
        if there[name] != here[name]:
            differences.append(f"{name} was {there[name]!r} and is {here[name]!r}")
    if there["columns"] != here["columns"]:
        gone, come = set(there["columns"]) - set(here["columns"]), set(here["columns"]) - set(there["columns"])
        names = [f"without {name}" for name in sorted(gone)] + [f"with {name}" for name in sorted(come)]
        differences.append(f"the columns differ: {', '.join(names[:SHOWN_FILES]) or 'another order'}")
    if not differences and there["chunks"] != here["chunks"]:
        differences.append("the rows come in other chunks")
    if not differences and there["content"] != here["content"]:
        differences.append("the data differ")
    return differences


def _check_folder(path: Path) -> None:
    if path.exists() and not path.is_dir():
        raise DataError(f"{path}: this is a file, and a checkpoint is a folder. {_NO_STATE}")
    if path.is_symlink() and not path.exists():
        raise DataError(f"{path}: this is a link to a folder that is not there. Make the folder, or name another.")
    there = next(parent for parent in (path, *path.absolute().parents) if parent.exists())
    if not os.access(there, os.W_OK | os.X_OK):
        code = errno.EROFS if os.statvfs(there).f_flag & os.ST_RDONLY else errno.EACCES
        raise explain_os_error(OSError(code, os.strerror(code)), path)


@contextmanager
def _alone(folder: Path, nbytes: int) -> Iterator[None]:
    """Lock a folder for one run, remove the partial files of a killed run, and check the free space."""
    with explain_os_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        lock = lock_file(folder / ".lock")
    if lock is None:
        raise ClusterError(
            f"{folder}: another run uses this checkpoint. Wait for its end, or stop it, then run the same "
            "command again."
        )
    try:
        for partial in folder.glob(f".{NAME.format('*')}.*.partial"):
            partial.unlink(missing_ok=True)
        if not any(folder.glob(NAME.format("*"))):
            _check_room(folder, nbytes)
        yield
    finally:
        os.close(lock)


def _check_room(folder: Path, nbytes: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < nbytes:
        raise ClusterError(
            f"{folder}: the checkpoint needs about {format_bytes(nbytes)} and there is room for "
            f"{format_bytes(free)}. Make room, then run the same command again, or give --checkpoint another folder."
        )


def _part(name: str, number: int | str) -> str:
    return f"{name}-part-{number}"


def _step(name: str, steps: int) -> str:
    return f"{name}-{steps:08d}"
