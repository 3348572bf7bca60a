"""Cautions of a survey, which are no errors: a class of one row, a constant feature, a copied label."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.data.source import Source
from dkernel.problem.targets import Targets
from dkernel.streaming.survey import SurveyResult

LOOKED_AT = 4096  # the label is compared with the features in so many rows
NAMED = 8  # names that fill a line


def cautions(
    survey: SurveyResult, counts: Mapping[Any, float], source: Source, targets: Targets
) -> Iterator[tuple[str, str]]:
    """Cautions, as (name, text)."""
    classes = targets.classes is not None
    single = [repr(label) for label, n in counts.items() if n == 1] if classes and source.weight is None else []
    if single:
        yield "rare classes", f"{_listed(single)}: one row each, learned from it alone or, held out, from none"
    if source.sparse or source.objects:
        return
    columns = _columns(source)
    level = survey.low == survey.high
    if constant := [name for name, places in columns.items() if len(places) and level[places].all()]:
        yield "constant", f"{_listed(constant)}: one value in all rows, so useless"
    sample = survey.reservoir
    X, y = sample.X[:LOOKED_AT], sample.y[:LOOKED_AT]
    if len(X) >= 20 and y.ndim == 1:  # fewer rows are alike by chance
        names = {name: places for name, places in columns.items() if not level[places].all()}
        if copies := (_same_groups if classes else _same_lines)(X, y, names):
            text = "exclude what is not known when predictions are made"
            yield "copies", f"{_listed(copies)}: on {len(X):,} rows these say the label exactly; {text}"


def _columns(source: Source) -> dict[str, list[int]]:
    """Column -> the places of its inputs."""
    if source.encoding is not None:
        return {name: list(places) for name, places in source.encoding.places.items()}
    return {name: [j] for j, name in enumerate(source.columns)}


def _same_groups(X: NDArray[Any], y: NDArray[Any], columns: Mapping[str, Sequence[int]]) -> list[str]:
    """The columns with one value for each class, and another one for each other."""
    _, codes = np.unique(y, return_inverse=True)
    n = int(codes.max()) + 1
    first = np.sort(X[:64], axis=0)  # so many rows tell most features from the label
    different = (first[1:] != first[:-1]).sum(axis=0) + 1
    found = []
    for name, places in columns.items():
        if n < 2 or (different[list(places)] > n).any():
            continue
        _, groups = np.unique(X[:, list(places)], axis=0, return_inverse=True)
        pairs = np.unique(np.stack([groups.reshape(-1), codes.reshape(-1)]), axis=1)
        if pairs.shape[1] == n == int(groups.max()) + 1:
            found.append(name)
    return found


def _same_lines(X: NDArray[Any], y: NDArray[Any], columns: Mapping[str, Sequence[int]]) -> list[str]:
    """The columns of one number that is the label, but for its zero and its unit."""
    target = y.astype(np.float64)
    target -= target.mean()
    width = float(np.sqrt(target @ target))
    found = []
    for name, places in columns.items():
        x = X[:, places[0]].astype(np.float64)
        x -= x.mean()
        size = float(np.sqrt(x @ x))
        if size and width:
            left = target / width - x / size * float(target @ x) / (size * width)
            if float(np.sqrt(left @ left)) < 1e-5:  # float32 leaves this share of the deviation of a copy
                found.append(name)
    return found


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")
