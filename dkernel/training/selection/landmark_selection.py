"""The landmarks of a fit, chosen from the reservoir; and the kernel and landmarks of a feature map alone."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.data.block import Block
from dkernel.data.collections.tables import as_rows, matrix
from dkernel.data.object_columns import check_source
from dkernel.data.source import Source
from dkernel.errors import DataError, RecipeError
from dkernel.features import Scaling, by_landmarks
from dkernel.features.landmarks import select_landmarks
from dkernel.kernels import Kernel, parse
from dkernel.model.recipe import GIVEN, Recipe
from dkernel.numerics.threads import one_blas_thread
from dkernel.solvers.reservoir_split import ReservoirSplit
from dkernel.solvers.sizes import CANDIDATES, Sizes
from dkernel.solvers.targets import Targets
from dkernel.streaming.block_reader import read_once
from dkernel.streaming.execution.base import Executor
from dkernel.streaming.survey import Survey, SurveyResult
from dkernel.training.selection.candidate_space import CandidateSpace


def given_landmarks(recipe: Recipe, landmarks: Any, source: Source) -> tuple[Recipe, NDArray[np.floating] | None]:
    """Return the recipe with the number of given landmarks, and these as a block; None if a rule chooses them."""
    if landmarks is None:
        if recipe.landmarks == GIVEN:
            raise RecipeError(
                f"landmarks={GIVEN!r} is the record of landmarks given as an array. Give the array again, or a rule."
            )
        return recipe, None
    if source.objects:
        landmarks = matrix(as_rows(landmarks, objects=True), "object")
    Z = source.layout.block(landmarks, "row {} of the landmarks".format)
    if not len(Z):
        raise DataError("The given landmarks have no rows; at least one is needed.")
    return recipe.replace(landmarks=GIVEN, n_components=len(Z)), Z


def choose_landmarks(
    recipe: Recipe, kernel: Kernel, scaling: Scaling, split: ReservoirSplit, sizes: Sizes, targets: Targets
) -> tuple[NDArray[np.floating], Block]:
    """Choose landmarks by the recipe's rule; return them scaled, and the sample, which takes their rows last."""
    if recipe.landmarks in ("uniform", GIVEN):
        return scaling.apply(split.landmarks.X), split.sample
    pool, n = split.pool, sizes.candidates
    classes = None
    if recipe.landmarks == "stratified":  # all rows, since a rare class has few
        assert pool.y is not None
        classes, n = targets.codes(pool.y), len(pool.X)
    chosen = select_landmarks(
        recipe.landmarks, kernel, scaling.apply(pool.X[:n]), sizes.components, recipe.seed, classes
    )
    return chosen.points, split.sample if chosen.rows is None else split.sample_beside(chosen.rows)


def sample_rows(source: Source, recipe: Recipe, rows: int, executor: Executor) -> tuple[Kernel, NDArray[Any]]:
    """Return the recipe's kernel with numbers, and `rows` landmarks (rows, p), or all rows if the source has fewer.

    Uniform landmarks are the rows with the smallest hashes, and other rules choose from such rows, so chunks and
    workers do not change them. It reads the source once. Nothing is scaled, and there is no label to judge gammas by,
    so gamma="auto" is the median value.
    """
    gamma = "median" if recipe.gamma == "auto" else recipe.gamma
    recipe = recipe.replace(scale="none", metric="identity", gamma=gamma)
    recipe = recipe.for_columns(source.columns)
    check_source(parse(recipe.kernel), source)
    if source.sparse and by_landmarks(recipe.features):
        parse(recipe.kernel).require_sparse()
    size = min(source.n_rows, max(rows, 1000))  # their distances give the median within a few percent
    if recipe.landmarks not in ("uniform", GIVEN):
        size = min(source.n_rows, max(CANDIDATES, 4 * rows))
    key = f"dkernel-sample-{source.token}-{recipe.seed}-{size}"
    survey = read_once(source, Survey(recipe.seed, source.n_rows, size), executor, key)
    reservoir = survey.reservoir.part(slice(None))
    _check_signs(parse(recipe.kernel), survey)
    kernel = parse(recipe.kernel)
    if kernel.placeholders:
        kernel = CandidateSpace(recipe, survey, reservoir, None, None).candidates()[0].kernel  # there is one
    if recipe.landmarks in ("uniform", GIVEN):
        return kernel, reservoir.X[:rows].copy()
    with one_blas_thread():
        return kernel, select_landmarks(
            recipe.landmarks, kernel, reservoir.X, rows, recipe.seed, _classes(survey)
        ).points


def _check_signs(kernel: Kernel, survey: SurveyResult) -> None:
    """Refuse columns with a negative value in any row, for a kernel of nonnegative numbers."""
    if not kernel.nonnegative:
        return
    try:
        kernel.bind(lambda *_: 1.0).diag(survey.low[None])  # the least of each column as one row
    except DataError:
        raise DataError(
            f"{kernel!r} is for counts, shares and other columns of at least 0, and the least value of X is "
            f"{survey.low.min():.6g}. Leave such columns out, or put a MinMaxScaler before it."
        ) from None


def _classes(survey: SurveyResult) -> NDArray[np.intp] | None:
    if survey.reservoir.y is None:
        return None
    if survey.labels is None:
        raise DataError(
            "landmarks='stratified' takes rows of each class; y has over 10,000 distinct values: too many for classes."
        )
    return np.asarray(np.unique(survey.reservoir.y, return_inverse=True)[1], np.intp)
