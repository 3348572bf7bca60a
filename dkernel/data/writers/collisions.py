"""Outputs that would take the place of what is read, or of each other: found before any work, by the files themselves.

Two names are one file where the file system says so (links, relative paths, other spellings), or the URL does.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from dkernel.data.paths import name_files
from dkernel.errors import DataError, mask_urls


@dataclass(frozen=True)
class Location:
    """A path that is read or written, and the option that names it.

    Parameters
    ----------
    option : "--out", "DATA", ...
    shared : a folder in which other outputs may lie too, as that of a checkpoint

    Examples
    --------
    >>> Location("a/../b.csv", "--out").same(Location("b.csv", "DATA"))
    True
    """

    path: str
    option: str
    shared: bool = False

    @cached_property
    def real(self) -> str:
        """The file of a link, absolute; of a URL without what only caches it, and whoever reads it."""
        if "://" not in self.path:
            return os.path.realpath(self.path)
        try:
            import fsspec

            system, path = fsspec.core.url_to_fs(self.path)
        except Exception:  # a package may be missing, any file system may raise its own; the opening says so
            return _without_secrets(self.path)
        if "file" in ((system.protocol,) if isinstance(system.protocol, str) else system.protocol):
            return os.path.realpath(path)
        return _without_secrets(str(system.unstrip_protocol(path)))

    @cached_property
    def identity(self) -> tuple[int, int] | None:
        """Device and number of the file; None where there is none."""
        try:
            status = os.stat(self.real)
        except (OSError, ValueError):
            return None
        return status.st_dev, status.st_ino

    def same(self, other: "Location") -> bool:
        """True if both are one file."""
        return self.real == other.real or (self.identity is not None and self.identity == other.identity)

    def holds(self, other: "Location") -> bool:
        """True if `other` lies in this folder."""
        return other.real.startswith(self.real.rstrip("/") + "/")


def _without_secrets(url: str) -> str:
    return mask_urls(url).replace("://***@", "://").removesuffix("?***").rstrip("/")


def inputs(data: Sequence[str | os.PathLike], option: str = "DATA") -> list[Location]:
    """The files that these names of data stand for."""
    return [Location(os.fspath(path), option) for item in data for path in name_files(item)]


def find_in_both(some: Sequence[str], others: Sequence[str]) -> str | None:
    """The first of the files `some` that is one of `others` too, under whatever name; None if none is."""
    known = [Location(path, "") for path in others]
    marks = {mark for output in known for mark in (output.real, output.identity)} - {None}
    return next((path for path in some if marks & {(output := Location(path, "")).real, output.identity}), None)


def check_apart(read: Sequence[Location], written: Sequence[Location]) -> None:
    """Refuse an output that would replace an input or another output.

    Raises
    ------
    DataError : it names both, and says what each is
    """
    for number, output in enumerate(written):
        for other in read:
            _check_input(output, other)
        for other in written[:number]:
            _check_pair(output, other)


def _check_input(output: Location, other: Location) -> None:
    if output.same(other):
        raise DataError(
            f"{output.path}: {output.option} names what is also an input ({other.option}), and would replace it. "
            "Choose another name."
        )
    if output.holds(other) and not output.shared:
        raise DataError(
            f"{output.path}: {output.option} names a folder that holds an input ({other.option} {other.path}), and "
            "would replace it. Choose another name."
        )
    if other.holds(output):
        raise DataError(
            f"{output.path}: {output.option} names a place inside of an input ({other.option} {other.path}). "
            "Choose another place."
        )


def _check_pair(output: Location, other: Location) -> None:
    if output.same(other) and not (output.shared and other.shared):
        raise DataError(f"{output.path}: {output.option} and {other.option} name the same. Choose two names.")
    for outer, inner in ((output, other), (other, output)):
        if outer.holds(inner) and not outer.shared:
            raise DataError(
                f"{inner.path}: {inner.option} names a place inside of {outer.option} {outer.path}, which holds "
                "nothing else. Choose another place."
            )
