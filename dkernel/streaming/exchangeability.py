"""Tests whether the chunks are alike, so that rounds of whole chunks are samples of the same data.

Two tests use the counts of the survey: chi-squared of the classes in each chunk against the whole, and the z of each
chunk's feature means (two-sample tests as in Lehmann and Romano 2005, chapters 5 and 14).
"""

from collections import Counter
from functools import reduce
from typing import Any

import numpy as np
import scipy

from dkernel.streaming.survey import ColumnMoments, SurveyResult

LEVEL = 1e-6  # level of a test: one in a million mixed sources is called sorted
LEAST_CHUNK = 50  # rows; smaller chunks are tested together, since many tests of few rows raise false alarms

ChunkGroup = tuple[ColumnMoments, Counter[Any]]


def explain_order(survey: SurveyResult) -> str:
    """Say how the chunks differ; the text is empty if they could be random parts of one whole, at the level 1e-6."""
    groups = _groups(survey)
    if len(groups) < 2:
        return ""
    p_labels, p_means = _labels_p(survey, groups), _means_p(survey, groups)
    p = min(p_labels, p_means)
    if p >= LEVEL:
        return ""
    which = "the labels" if p_labels <= p_means else "the features' means"
    return f"{which} of the {len(survey.chunks)} chunks differ, p = {p:.1e}"


def _groups(survey: SurveyResult) -> list[ChunkGroup]:
    """Moments and labels of the chunks in order; neighbours are merged until they have LEAST_CHUNK rows."""
    groups: list[ChunkGroup] = []
    for _, (moments, labels) in sorted(survey.chunks.items()):
        groups.append((moments, Counter(labels or {})))
        if len(groups) > 1 and groups[-2][0].n < LEAST_CHUNK:
            groups.append(_together(groups.pop(-2), groups.pop()))
    if len(groups) > 1 and groups[-1][0].n < LEAST_CHUNK:
        groups.append(_together(groups.pop(-2), groups.pop()))
    return groups


def _together(left: ChunkGroup, right: ChunkGroup) -> ChunkGroup:
    return left[0].merge(right[0]), left[1] + right[1]


def _labels_p(survey: SurveyResult, groups: list[ChunkGroup]) -> float:
    if survey.labels is None or len(survey.labels) < 2:
        return 1.0
    names = sorted(survey.labels)
    counts = np.array([[counted[name] for name in names] for _, counted in groups])
    of_group, of_class = counts.sum(axis=1, keepdims=True) / counts.sum(), counts.sum(axis=0) / counts.sum()
    expected = counts.sum() * of_group * of_class
    # Cells that are too small for the chi-squared law are left out, and their share of the degrees of freedom too.
    # All cells together have the usual (groups - 1) (classes - 1).
    large = expected >= 5
    freedom = float(((1 - of_group) * (1 - of_class))[large].sum())
    if freedom <= 0:
        return 1.0
    return float(
        scipy.special.chdtrc(freedom, float(((counts - expected) ** 2 / np.maximum(expected, 5))[large].sum()))
    )


def _means_p(survey: SurveyResult, groups: list[ChunkGroup]) -> float:
    whole = survey.moments
    if survey.reservoir is not None and survey.reservoir.weight is not None:  # the moments of chunks have no weights
        whole = reduce(ColumnMoments.merge, (moments for moments, _ in groups))
    deviation = np.sqrt(whole.variance)
    varies = deviation > 1e-7 * np.maximum(np.abs(whole.mean), survey.high - survey.low)
    if not varies.any():
        return 1.0
    smallest = 1.0
    for moments, _ in groups:
        error = deviation[varies] / np.sqrt(moments.n)
        z = np.abs(moments.mean - whole.mean)[varies] / error
        # Heavy tails make a single z large where nothing is wrong, so the mean must also differ by 0.1 deviations.
        moved = np.abs(moments.mean - whole.mean)[varies] / deviation[varies]
        strong = z[moved > 0.1]
        if strong.size:
            tests = len(groups) * int(varies.sum())
            smallest = min(smallest, tests * float(scipy.special.chdtrc(1, strong.max() ** 2)))
    return smallest
