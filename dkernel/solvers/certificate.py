"""How well the landmarks of a fit approximate its kernel, on rows that it did not learn from."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.features import FeatureMap, NystromMap
from dkernel.features.base import MOST_DENSE
from dkernel.numerics.rows import n_terms, wide
from dkernel.solvers.sizes import pass_flops


def certificate(
    map: FeatureMap, X: NDArray[np.floating], flops: float, known: tuple[NDArray[Any], NDArray[Any]] | None = None
) -> dict[str, float]:
    """Measure how well landmarks approximate the kernel, on rows that the fit did not learn from.

    Parameters
    ----------
    X : scaled rows (n, p)
    flops : of the fit; a small share of them limits the rows
    known : metric of the solver's coordinates and its root; without them their squares are computed here

    Returns
    -------
    residual of the rows, and the effective rank of the landmarks
    """
    c, p = len(map.landmarks), n_terms(map.landmarks)
    # The mean over 2,000 rows is within a few percent of that over all rows, and takes a hundredth of a fit's flops.
    rows = int(min(len(X), 2000, max(0.01 * flops / (c * c + pass_flops(1, p, c)), 100)))
    X, nystrom = X[:rows], NystromMap(map.kernel, map.landmarks)  # its squares end with this function
    residual = nystrom.residual(X) if known is None else np.maximum(nystrom.beyond(X, known[1]), 0.0)
    mean = float(np.mean(map.kernel.diag(wide(X))))
    figures = {
        "trace_error": float(np.mean(residual)),
        "trace_share": float(np.mean(residual)) / mean if mean > 0 else 0.0,
        "trace_largest": float(residual.max()),
        "trace_rows": rows,
    }
    if known is not None:
        return {**figures, "effective_rank": float(np.trace(known[0]) ** 2 / np.vdot(known[0], known[0]))}
    # The rank takes a square of the landmarks.
    return figures if c > MOST_DENSE else {**figures, "effective_rank": nystrom.effective_rank}
