"""What grids look at: their inputs, categories among these, and how much each counts."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.data.source import Source
from dkernel.errors import RecipeError
from dkernel.features import Scaling
from dkernel.local.cells import learn_root
from dkernel.local.inputs import GridInputs, Groups, has_two_values, named_groups, one_hot_groups
from dkernel.numerics.array_types import F64

GROUP_SAMPLE = 16_384  # rows that a local stage looks at first, enough for the correlations of a group's grids
MOST_GROUP_LEVELS = 256  # beside which relevances are learned: the memory of gradients grows with the square
CATEGORY = 1.0  # gamma of a category: a grid separates all its levels with probability 1 - 1/e
RELEVANCE_ROWS = 2500  # 4,000 rows of forest cover give the same numbers, give or take a tenth, in four times the time
RELEVANCE_GRADIENTS = 1000  # rows at which they are averaged
# Features that say nothing lose their relevance slowly: with 3, 5, 8 and 20 rounds and 256 grids, the squared hinge
# loss on rows held out is .152, .150, .145 and .139 on 30,000 rows of forest cover, and .164, .146, .142 and .137 on a
# checkerboard of two features beside six of noise. California, kin40k, magic and rare classes change by their noise.
RELEVANCE_ROUNDS = 8
RELEVANCE_RIDGE = 1e-2  # a share of k(x, x), since labels have noise


def relevances(
    X: NDArray[Any], Y: NDArray[Any], inputs: GridInputs, scaling: Scaling, threads: int = 1
) -> NDArray[np.float64]:
    """gamma of each input where the overall width is 1: relevance over deviation, and CATEGORY for groups.

    One row is learned without the categories and, where they have few levels, another one with them: numbers that say
    nothing by themselves may say much within a category, and numbers that repeat a category say little beside it.

    Parameters
    ----------
    X, Y : rows of the source and their targets, of which the first RELEVANCE_ROWS count
    scaling : to standard scores
    threads : that share the work; their number moves no bit
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
        relevant[spread] = relevance(columns[:, spread], targets, threads)
        numbers = relevant[:n][spread[:n]]
        mean = float(np.sqrt(np.square(numbers).mean())) if len(numbers) else 0.0
        row[:n] = (relevant[:n] / mean if mean > 0 else spread[:n]) * scaling.factor[inputs.numbers]
    return gamma


def relevance(X: F64, Y: F64, threads: int = 1) -> F64:
    """Root of the mean squared derivative along each feature, of mean square 1; float64 (p,).

    The function is a kernel ridge regression with an exponential kernel, as a cell has, in a metric that is learned
    from its own gradients (Radhakrishnan and others 2024).

    Parameters
    ----------
    X : standardised rows (n, p);  Y : targets (n, outputs)
    threads : that share the work; their number moves no bit
    """
    rows, targets = (np.ascontiguousarray(each[:RELEVANCE_ROWS], np.float32) for each in (X, Y))
    if not rows.shape[1] or len(rows) < 2:
        return np.ones(rows.shape[1])
    root = learn_root(rows, targets, RELEVANCE_RIDGE, RELEVANCE_GRADIENTS, RELEVANCE_ROUNDS, threads)
    diagonal = np.diag(root.astype(np.float64) @ root)
    mean = float(diagonal.mean())
    return np.sqrt(diagonal / mean) if mean > 0 else np.ones(len(diagonal))


def feature_names(source: Source) -> Sequence[str]:
    """Names of the features of a source, as an encoding makes them."""
    return source.columns if source.encoding is None else source.encoding.names


def _numbers(source: Source) -> list[int]:
    """The features that no category of the encoding has, nor the calendar of a date."""
    encoding = source.encoding
    if encoding is None:
        return list(range(source.n_in))
    known = {j for group in encoding.groups for j in group}
    return sorted({places.start for places in encoding.places.values()} - known)


def given_groups(source: Source, wanted: Sequence[Sequence[str]]) -> Groups:
    """The groups of a recipe, found among the features of a source."""
    names = feature_names(source)
    return named_groups(wanted, {names[j]: j for j in _numbers(source)})


def category_groups(source: Source, X: NDArray[Any], wanted: str | Sequence[Sequence[str]]) -> Groups:
    """The inputs that are one category together: by the encoding, and of its numbers as the sample X or names say."""
    known: Groups = () if source.encoding is None else source.encoding.groups
    if wanted == "none":
        return known
    if wanted == "auto":
        return one_hot_groups(X, known, set(range(source.n_in)) - set(_numbers(source)))
    given, is_level = given_groups(source, wanted), has_two_values(X)
    for j in chain.from_iterable(given):
        if not is_level[j]:
            raise RecipeError(
                f"one_hot={feature_names(source)[j]!r} is a feature of more values than 0 and one other, so no level "
                "of a category. Leave it out of the group."
            )
    return tuple(sorted([*known, *given]))
