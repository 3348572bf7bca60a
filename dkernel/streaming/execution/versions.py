"""The version guard: every process of a run has the same dkernel, Python, numpy, numba, scipy and Dask.

Dask only warns about a difference (`Client.get_versions(check=True)` raises nothing). A worker with another numpy
computes other bits, or fails later with an error about something else.
"""

import platform
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from dkernel.errors import ClusterError
from dkernel.version import __version__

_PACKAGES = ("numpy", "numba", "scipy", "dask", "distributed")


def versions() -> dict[str, str]:
    """Name -> version of each package that decides a result, in this process.

    Examples
    --------
    >>> list(versions())
    ['dkernel', 'python', 'numpy', 'numba', 'scipy', 'dask', 'distributed']
    """
    python = ".".join(platform.python_version_tuple()[:2])
    return {"dkernel": __version__, "python": python} | {name: _version(name) for name in _PACKAGES}


def require_equal(expected: Mapping[str, str], worker: str, there: Mapping[str, str]) -> None:
    """Raise a ClusterError with a table of the differences unless a worker has the expected versions.

    Examples
    --------
    >>> require_equal({"numpy": "2.0"}, "tcp://host:1", {"numpy": "2.0"})
    """
    wrong = [name for name in expected if there.get(name) != expected[name]]
    if wrong:
        rows = [(worker, name, expected[name], there.get(name, "absent")) for name in wrong]
        raise ClusterError(
            "The workers and this process have different versions, so their results would differ:\n"
            + _table([("worker", "package", "here", "there"), *rows])
            + "\nInstall the same versions everywhere (one image or environment for all) and start the workers again."
        )


def _table(rows: list[tuple[str, ...]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join("  " + line.rstrip() for line in lines)


@cache
def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "absent"
