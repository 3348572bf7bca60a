"""The inputs of grids, and the features that encode one category together."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

from numpy.typing import NDArray

from dkernel.data.source import Source
from dkernel.errors import RecipeError
from dkernel.model.local.inputs import Groups, has_two_values, named_groups, one_hot_groups


def feature_names(source: Source) -> Sequence[str]:
    """Return the names of the features of a source, after its encoding."""
    return source.columns if source.encoding is None else source.encoding.names


def _numbers(source: Source) -> list[int]:
    """Return the features that are neither a level of a category nor a part of a date."""
    encoding = source.encoding
    if encoding is None:
        return list(range(source.n_in))
    known = {j for group in encoding.groups for j in group}
    return sorted({places.start for places in encoding.positions.values()} - known)


def find_groups(source: Source, one_hot: Sequence[Sequence[str]]) -> Groups:
    """Find the groups of a recipe among the features of a source."""
    names = feature_names(source)
    return named_groups(one_hot, {names[j]: j for j in _numbers(source)})


def category_groups(source: Source, X: NDArray[Any], one_hot: str | Sequence[Sequence[str]]) -> Groups:
    """Find the inputs that encode one category together.

    Parameters
    ----------
    X : sample of the source
    one_hot : setting of the recipe: "none" takes the categories of the encoding, "auto" adds those of the sample,
        and groups of names are added
    """
    known: Groups = () if source.encoding is None else source.encoding.groups
    if one_hot == "none":
        return known
    if one_hot == "auto":
        return one_hot_groups(X, known, set(range(source.n_in)) - set(_numbers(source)))
    given, is_level = find_groups(source, one_hot), has_two_values(X)
    for j in chain.from_iterable(given):
        if not is_level[j]:
            raise RecipeError(
                f"one_hot={feature_names(source)[j]!r} is a feature of more values than 0 and one other, so no level "
                "of a category. Leave it out of the group."
            )
    return tuple(sorted([*known, *given]))
