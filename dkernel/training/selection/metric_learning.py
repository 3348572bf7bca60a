"""A learned metric: the average gradient outer product of a fitted function becomes the inner product of the inputs.

The gradients of a function that is fitted to the reservoir show in which directions of the input the answer changes:
M = mean of ∇f(x) ∇f(x)^T over rows (Radhakrishnan, Beaglehole, Pandit and Belkin, Science 2024: recursive feature
machines). Distances in the metric M are Euclidean distances after x -> x M^{1/2}, which becomes a part of the scaling,
so no tile depends on it. A function that is fitted to the moved rows has a better M again; a few rounds are enough.
The diagonal of M alone is automatic relevance determination, one length for each column.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.errors import UnsupportedError
from dkernel.features import Scaling
from dkernel.kernels import Kernel
from dkernel.kernels.analysis.gradients import gradients, has_gradient, is_radial, metric_root
from dkernel.numerics.array_types import F64
from dkernel.numerics.layout import Layout
from dkernel.training.selection.candidates import Candidate

MOST_METRIC_COLUMNS = 512  # columns of the data: M is a square of them, and moving a row takes 2 p^2 flops


def learnable_metric(kernel: Kernel, p: int) -> str:
    """Return the metric that metric="auto" tries: "full", "diagonal" or "identity".

    The L1 distance depends on the columns, so a rotation between them would change it.

    Examples
    --------
    >>> from dkernel.kernels import Gaussian, Laplacian, Linear
    >>> learnable_metric(Gaussian(), 28), learnable_metric(Laplacian(), 28), learnable_metric(Linear(), 28)
    ('full', 'diagonal', 'identity')
    """
    if p > MOST_METRIC_COLUMNS or p < 2 or not has_gradient(kernel):
        return "identity"
    return "full" if is_radial(kernel) else "diagonal"


def check_metric(metric: str, kernel: Kernel, layout: Layout) -> None:
    """Refuse a metric for rows that are not numbers, for very many columns, and for a kernel without a gradient."""
    if metric in ("identity", "auto"):
        return
    layout.require_numbers(f"metric={metric!r}", "Use metric='identity'.")
    p = len(layout.columns)
    if metric == "full" and p > MOST_METRIC_COLUMNS:
        raise UnsupportedError(
            f"metric='full' of {p:,} columns is a matrix of their square; up to {MOST_METRIC_COLUMNS} are taken. Use "
            "metric='diagonal', or 'identity'."
        )
    if not has_gradient(kernel):
        gradients(kernel, np.zeros((1, p)), np.zeros((1, p)), np.zeros((1, 1)))  # raises the error that says why


def move_to_metric(candidate: Candidate, base: Scaling, moment: F64, X: NDArray[Any], kind: str) -> Candidate:
    """Move a candidate to the metric of the gradients of its fitted function.

    Parameters
    ----------
    base : scaling without a metric
    moment : moment of the gradients at the rows in the scaling of the candidate
    """
    now = candidate.scaling.rotation if kind == "full" else np.diag(candidate.scaling.factor / base.factor)
    if now is not None:  # the moment is that of rows in the metric before
        moment = now @ moment @ now.T
    root = metric_root(moment, kind == "diagonal")
    weights = np.diag(moment) / max(float(np.trace(moment)), 1e-300)
    return replace(candidate, scaling=add_metric(base, root, X, kind == "diagonal"), metric=kind, weights=weights)


def add_metric(scaling: Scaling, root: F64, X: NDArray[Any], diagonal: bool) -> Scaling:
    """Add `root` to a scaling, times a number that keeps the mean square of the rows X."""
    base = replace(scaling, rotation=None)
    rows = base.apply(X, "float64")
    after = float(np.mean((rows @ root) ** 2))
    factor = np.sqrt(float(np.mean(rows**2)) / after) if after > 0 else 1.0
    if diagonal:
        return replace(base, factor=base.factor * np.diag(root) * factor)
    return replace(base, rotation=root * factor)
