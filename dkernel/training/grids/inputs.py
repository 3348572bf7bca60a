"""The inputs of grids: which features are one category together, and the relevance of each input."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.data.source import Source
from dkernel.errors import RecipeError
from dkernel.features import Scaling
from dkernel.model.local.cells import learn_root
from dkernel.model.local.inputs import GridInputs, Groups, has_two_values, named_groups, one_hot_groups
from dkernel.numerics.array_types import F64

MOST_GROUP_LEVELS = 256  # levels of categories in the rows that relevances are learned from: memory is their square
CATEGORY = 1.0  # gamma of a category: a grid separates all its levels with probability 1 - 1/e
RELEVANCE_ROWS = 2500  # 4,000 rows of forest cover give the same numbers, give or take a tenth, in four times the time
RELEVANCE_GRADIENTS = 1000  # rows whose gradients are averaged
# Features without information lose their relevance slowly: with 3, 5, 8 and 20 rounds and 256 grids, the squared hinge
# loss on rows held out is .152, .150, .145 and .139 on 30,000 rows of forest cover, and .164, .146, .142 and .137 on a
# checkerboard of two features beside six of noise. California, kin40k, magic and rare classes change by their noise.
RELEVANCE_ROUNDS = 8
RELEVANCE_RIDGE = 1e-2  # a share of k(x, x), since labels have noise


def relevances(
    X: NDArray[Any], Y: NDArray[Any], inputs: GridInputs, scaling: Scaling, threads: int = 1
) -> NDArray[np.float64]:
    """gamma of each input where the overall width is 1: relevance over deviation, and CATEGORY for groups.

    The first row of the result is learned without the categories. If they have few levels, a second row is learned with
    them: a number may matter only within a category, or may only repeat one.

    Parameters
    ----------
    X, Y : rows of the source and their targets; the first RELEVANCE_ROWS are used
    scaling : to standard scores
    threads : that share the work; their number changes no bit
    """
    rows = scaling.apply(X[:RELEVANCE_ROWS], "float64").astype(np.float64, copy=False)
    targets = Y[:RELEVANCE_ROWS].astype(np.float64)
    levels, n = [j for group in inputs.groups for j in group], len(inputs.numbers)
    seen = [rows[:, inputs.numbers]]
    if 0 < len(levels) <= MOST_GROUP_LEVELS:
        seen.append(np.hstack([seen[0], X[:RELEVANCE_ROWS, levels] != 0]))
    gamma = np.full((len(seen), inputs.n_out), CATEGORY)
    for row, columns in zip(gamma, seen, strict=True):
        relevant, spread = np.zeros(columns.shape[1]), columns.std(axis=0) > 0
        relevant[spread] = learn_relevance(columns[:, spread], targets, threads)
        numbers = relevant[:n][spread[:n]]
        mean = float(np.sqrt(np.square(numbers).mean())) if len(numbers) else 0.0
        row[:n] = (relevant[:n] / mean if mean > 0 else spread[:n]) * scaling.factor[inputs.numbers]
    return gamma


def learn_relevance(X: F64, Y: F64, threads: int = 1) -> F64:
    """Learn the relevance of each feature: the root of the mean squared derivative, of mean square 1; float64 (p,).

    The function is a kernel ridge regression with an exponential kernel, as a cell has, in a metric that is learned
    from its own gradients (Radhakrishnan and others 2024).

    Parameters
    ----------
    X : standardised rows (n, p);  Y : targets (n, outputs)
    threads : that share the work; their number changes no bit
    """
    rows, targets = (np.ascontiguousarray(each[:RELEVANCE_ROWS], np.float32) for each in (X, Y))
    if not rows.shape[1] or len(rows) < 2:
        return np.ones(rows.shape[1])
    root = learn_root(rows, targets, RELEVANCE_RIDGE, RELEVANCE_GRADIENTS, RELEVANCE_ROUNDS, threads)
    diagonal = np.diag(root.astype(np.float64) @ root)
    mean = float(diagonal.mean())
    return np.sqrt(diagonal / mean) if mean > 0 else np.ones(len(diagonal))


def feature_names(source: Source) -> Sequence[str]:
    """Names of the features of a source, after its encoding."""
    return source.columns if source.encoding is None else source.encoding.names


def _numbers(source: Source) -> list[int]:
    """The features that are neither a level of a category nor a part of a date."""
    encoding = source.encoding
    if encoding is None:
        return list(range(source.n_in))
    known = {j for group in encoding.groups for j in group}
    return sorted({places.start for places in encoding.places.values()} - known)


def find_groups(source: Source, wanted: Sequence[Sequence[str]]) -> Groups:
    """Find the groups of a recipe among the features of a source."""
    names = feature_names(source)
    return named_groups(wanted, {names[j]: j for j in _numbers(source)})


def category_groups(source: Source, X: NDArray[Any], wanted: str | Sequence[Sequence[str]]) -> Groups:
    """Find the inputs that are one category together.

    Parameters
    ----------
    X : sample of the source
    wanted : of the recipe: "none" takes the categories of the encoding, "auto" also those that the sample shows, and
        groups of names also these
    """
    known: Groups = () if source.encoding is None else source.encoding.groups
    if wanted == "none":
        return known
    if wanted == "auto":
        return one_hot_groups(X, known, set(range(source.n_in)) - set(_numbers(source)))
    given, is_level = find_groups(source, wanted), has_two_values(X)
    for j in chain.from_iterable(given):
        if not is_level[j]:
            raise RecipeError(
                f"one_hot={feature_names(source)[j]!r} is a feature of more values than 0 and one other, so no level "
                "of a category. Leave it out of the group."
            )
    return tuple(sorted([*known, *given]))
