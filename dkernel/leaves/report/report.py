"""The report of a fit: one HTML page that holds everything it shows and loads nothing. Drawn by matplotlib, on demand.

`numbers` computes what is shown, `figures` draws it, `page` lays it out; each knows nothing of the next.
"""

import importlib.util
import logging
import os
from collections.abc import Mapping
from typing import Any

from dkernel.errors import UnsupportedError

__all__ = ["require_matplotlib", "write", "write_test"]


def require_matplotlib() -> None:
    """Raise UnsupportedError if matplotlib is missing: before hours of training rather than after."""
    if importlib.util.find_spec("matplotlib") is None:
        raise UnsupportedError(
            "--report draws with matplotlib, which is not installed. Install it (pip install matplotlib), or "
            "leave --report out."
        )


def write(path: str | os.PathLike[str], result: Any, summary: Any, record: Mapping[str, Any]) -> None:
    """Write the page of a fit, in one step.

    Parameters
    ----------
    result : dkernel.training.fit.TrainResult
    summary : dkernel.inference.summary.FitSummary
    record : the run record: times, peaks, versions, paths
    """
    from dkernel.data.store import write_whole

    write_whole(path, _pages().page(result, summary, record).encode())


def write_test(path: str | os.PathLike[str], model: Any, rows: Any, record: Mapping[str, Any]) -> None:
    """Write the page of an evaluation, in one step.

    Parameters
    ----------
    rows : Block of rows with labels to draw
    record : the run record, with `figures`
    """
    from dkernel.data.store import write_whole

    write_whole(path, _pages().page_of_test(model, rows, record).encode())


def _pages() -> Any:
    require_matplotlib()
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # the first import tells that it looks for fonts
    from dkernel.leaves.report import page

    return page
