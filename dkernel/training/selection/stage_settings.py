"""The search for the settings of a local stage, and what a race has learned for it."""

from collections.abc import Callable
from dataclasses import dataclass

from dkernel.model.serialization import stored
from dkernel.training.selection.descent import Place


@stored("RaceFindings")
@dataclass(frozen=True, eq=False)
class RaceFindings:
    """Settings that a race has learned for a local stage on a sample.

    Parameters
    ----------
    place : of the best settings, where the search on more rows begins
    """

    place: Place | None = None


NOTHING = RaceFindings()


def best_place(
    loss: Callable[[Place], float],
    start: Place | None,
    near: Callable[[Callable[[Place], float], Place], Place],
    anywhere: Callable[[Callable[[Place], float]], Place],
    effort: str,
) -> Place:
    """Search the settings of a local stage on the rows of a fit.

    Parameters
    ----------
    start : the best place of a race, beside which `near` searches; without one `anywhere` does
    effort : of the recipe; with a high one both search
    """
    ends = [] if start is None else [near(loss, start)]
    if start is None or effort == "high":
        ends.append(anywhere(loss))
    return min(ends, key=loss)
