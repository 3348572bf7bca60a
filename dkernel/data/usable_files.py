"""Selects the files that a run reads: without the unreadable ones, and without those that an earlier run has scored."""

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dkernel.data.file_stamps import stamp_file
from dkernel.data.paths import File
from dkernel.data.store import is_url, locate, write_whole
from dkernel.errors import DataError, mask_urls


class NoGoodFileError(DataError):
    """All files are bad, though no more of them than are allowed."""


def without_bad_files(
    files: Sequence[File], look: Callable[[File], Any], allowed: int, bad: Mapping[str, str]
) -> tuple[list[File], dict[str, str]]:
    """The files at which one can look, and of the others the names and the reasons.

    Parameters
    ----------
    look : raises a DataError at a file that cannot be read
    bad : files that are known to be bad

    Raises
    ------
    DataError : more than `allowed` files are bad, or all of them; it names the first
    """
    good, bad = [], dict(bad)
    for file in files:
        try:
            look(file)
            good.append(file)
        except DataError as error:
            bad[file.name] = str(error)
    check_bad_files(bad, allowed, len(good))
    return good, bad


def check_bad_files(bad: Mapping[str, str], allowed: int, good: int) -> None:
    """Refuse more bad files than `allowed`, and where none of the files is good."""
    if len(bad) > allowed or not good:
        shown = "\n".join(f"  {reason}" for reason in list(bad.values())[:10])
        more = "and none is left" if not good else f"and max_bad_files={allowed} allows no more"
        kind = DataError if len(bad) > allowed else NoGoodFileError
        raise kind(f"{len(bad)} of {good + len(bad)} files cannot be read, {more}:\n{shown}")


def mask_names(bad: Mapping[str, Any]) -> dict[str, Any]:
    """The mapping by the names that may be written and said."""
    return {mask_urls(path): reason for path, reason in bad.items()}


@dataclass(frozen=True)
class DoneFiles:
    """The list of the files that earlier runs have scored, by name, size and time (or etag), kept at a path or a URL.

    It also lists the files that they left out, with the reasons. A file that was changed since then is new, one that is
    read by another user or signature is not: the name is the masked one. One run at a time may use a list.
    """

    path: str

    def new_files(self, files: Iterable[File]) -> list[File]:
        """The files that are new: those that no run has scored as they are now."""
        done, _ = self._read()
        return [file for file in files if done.get(_name(file.path), {}).get("is") != _stamp(file)]

    def files_left_out(self, files: Iterable[File], unopened: Iterable[str]) -> dict[str, str]:
        """The names of those of the files that an earlier run has left out, with the reasons.

        Parameters
        ----------
        unopened : paths of others, which cannot be opened
        """
        _, bad = self._read()
        there = [(file.name, file.path, _stamp(file)) for file in files]
        there += [(mask_urls(path), path, _stamp_at(path)) for path in unopened]
        known = ((name, stamp, bad.get(_name(path))) for name, path, stamp in there)
        return {name: entry["reason"] for name, stamp, entry in known if entry and entry["is"] == stamp}

    def add(self, files: Iterable[File], unopened: Mapping[str, str], bad: Mapping[str, str], **facts: Any) -> None:
        """List files as done, with facts about the run, and the bad ones among them, and the unopened, with the reason.

        The old list or the whole new one is there.
        """
        done, known = self._read()
        for file in files:
            name, reason = _name(file.path), bad.get(file.name)
            known.pop(name, None)
            if reason is None:
                done[name] = {"is": _stamp(file), **facts}
            else:
                known[name] = {"is": _stamp(file), "reason": reason}
        for path, reason in unopened.items():
            known[_name(path)] = {"is": _stamp_at(path), "reason": reason}
        content = {"dkernel": "files that were scored", "files": done, "bad": known}
        write_whole(self.path, (json.dumps(content, indent=1) + "\n").encode())

    def _read(self) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]]]:
        """What the list has of the files that were scored, and of those left out."""
        store, name = locate(self.path)
        if not store.has(name):
            return {}, {}
        content = store.read(name)
        try:
            lists = json.loads(content)
            files, bad = mask_names(lists["files"]), mask_names(lists.get("bad", {}))
            texts = [entry["is"] for entry in (*files.values(), *bad.values())]
            texts += [entry["reason"] for entry in bad.values()]
            if all(isinstance(text, str) for text in texts):
                return files, bad
        except (ValueError, LookupError, TypeError, AttributeError):
            pass
        raise DataError(
            f"{self.path}: this is not a list of scored files, as --done writes it. Name another file, or move this "
            "one away: then all files count as new."
        )


def _name(path: str) -> str:
    return mask_urls(path) if is_url(path) else os.path.realpath(path)


def _stamp(file: File) -> str:
    return f"{file.size} bytes, {file.stamp}"


def _stamp_at(path: str) -> str:
    """The stamp of a file that cannot be opened; "" where nothing is known of it."""
    try:
        return "{} bytes, {}".format(*stamp_file(path))
    except (OSError, ValueError):
        return ""
