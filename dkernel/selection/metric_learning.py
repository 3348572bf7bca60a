"""A learned metric: the average gradient outer product of a fitted function becomes the inner product of the inputs.

A function that is fitted to the reservoir says by its gradients in which directions of the input the answer changes:
M = mean of ∇f(x) ∇f(x)^T over rows (Radhakrishnan, Beaglehole, Pandit and Belkin, Science 2024: recursive feature
machines). Distances in the metric M are Euclidean ones after x -> x M^{1/2}, which is folded into the scaling: no tile
knows of it. The function that is fitted to the rows so moved has a better M again; a few rounds are enough. The
diagonal of M alone is automatic relevance determination, one length for each column.
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
from dkernel.selection.candidates import Candidate

MOST_METRIC_COLUMNS = 512  # columns of the data: M is a square of them, and moving a row takes 2 p^2 flops


def learnable_metric(kernel: Kernel, p: int) -> str:
    """The metric that metric="auto" tries: "full", "diagonal" or "identity".

    The L1 distance knows the columns, not the directions between them: a rotation would take that from it.

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
    """Refuse a metric that cannot be learned: of what is no number, of very many columns, of a kernel without slope."""
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
        gradients(kernel, np.zeros((1, p)), np.zeros((1, p)), np.zeros((1, 1)))  # says why


def move_to_metric(candidate: Candidate, base: Scaling, moment: F64, X: NDArray[Any], kind: str) -> Candidate:
    """The candidate in the metric that the gradients of its fitted function say.

    Parameters
    ----------
    base : scaling without a metric
    moment : of gradients of the scaled rows as they are now
    """
    now = candidate.scaling.rotation if kind == "full" else np.diag(candidate.scaling.factor / base.factor)
    if now is not None:  # the metric is one of the rows before it
        moment = now @ moment @ now.T
    root = metric_root(moment, kind == "diagonal")
    weights = np.diag(moment) / max(float(np.trace(moment)), 1e-300)
    return replace(candidate, scaling=add_metric(base, root, X, kind == "diagonal"), metric=kind, weights=weights)


def add_metric(scaling: Scaling, root: F64, X: NDArray[Any], diagonal: bool) -> Scaling:
    """The scaling with `root` behind it, times a number that keeps the mean square of the rows X as it was."""
    base = replace(scaling, rotation=None)
    rows = base.apply(X, "float64")
    after = float(np.mean((rows @ root) ** 2))
    factor = np.sqrt(float(np.mean(rows**2)) / after) if after > 0 else 1.0
    if diagonal:
        return replace(base, factor=base.factor * np.diag(root) * factor)
    return replace(base, rotation=root * factor)
