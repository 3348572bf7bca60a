"""Are the chunks alike? If not, rounds of whole chunks would each teach something else.

Two tests on what the survey counted anyway: chi-squared of the classes in each chunk against the whole, and the z of
each chunk's feature means. Source: ALGORITHMS 3.9.
"""

from dataclasses import dataclass

import numpy as np
from scipy.stats import chi2

from dkernel.run.survey import SurveyResult

__all__ = ["Exchange", "exchangeable"]

LEVEL = 1e-6


@dataclass(frozen=True)
class Exchange:
    """The verdict: `p` is the smaller of the two tests' probabilities, `why` says which test spoke."""

    alike: bool
    p: float
    why: str


def exchangeable(survey: SurveyResult) -> Exchange:
    """Whether the chunks could be random parts of one whole, at the level 1e-6."""
    if len(survey.chunks) < 2:
        return Exchange(True, 1.0, "one chunk")
    p_labels, p_means = _labels_p(survey), _means_p(survey)
    p = min(p_labels, p_means)
    which = "the labels" if p_labels <= p_means else "the features' means"
    return Exchange(p >= LEVEL, p, f"{which} of the {len(survey.chunks)} chunks differ, p = {p:.1e}")


def _labels_p(survey: SurveyResult) -> float:
    if survey.labels is None or len(survey.labels) < 2:
        return 1.0
    names = sorted(survey.labels)
    counts = np.array([[(chunk or {}).get(name, 0.0) for name in names] for _, chunk in survey.chunks.values()])
    rows, columns = counts.sum(axis=1), counts.sum(axis=0)
    expected = np.outer(rows, columns) / counts.sum()
    # Cells too small for the chi-squared law are pooled over the classes, as usual.
    small = expected.min(axis=0) < 5
    if small.any():
        counts = np.column_stack([counts[:, ~small], counts[:, small].sum(axis=1)])
        expected = np.column_stack([expected[:, ~small], expected[:, small].sum(axis=1)])
    usable = expected.min(axis=0) >= 1
    if usable.sum() < 2:
        return 1.0
    statistic = float(((counts - expected)[:, usable] ** 2 / expected[:, usable]).sum())
    return float(chi2.sf(statistic, (len(rows) - 1) * (int(usable.sum()) - 1)))


def _means_p(survey: SurveyResult) -> float:
    whole = survey.moments
    deviation = np.sqrt(whole.variance)
    varies = deviation > 1e-7 * np.maximum(np.abs(whole.mean), survey.high - survey.low)
    if not varies.any():
        return 1.0
    smallest = 1.0
    for moments, _ in survey.chunks.values():
        if moments.n < 30:
            continue
        error = deviation[varies] / np.sqrt(moments.n)
        z = np.abs(moments.mean - whole.mean)[varies] / error
        # Heavy tails make single z large where nothing is wrong: a large share of a deviation must be off as well.
        moved = np.abs(moments.mean - whole.mean)[varies] / deviation[varies]
        strong = z[moved > 0.1]
        if strong.size:
            tests = len(survey.chunks) * int(varies.sum())
            smallest = min(smallest, tests * float(chi2.sf(strong.max() ** 2, 1)))
    return smallest
