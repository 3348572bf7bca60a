"""The components of raw rows with the 1 of the intercept, as the statistics of a fit have them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.features.base import FeatureMap, in_tiles
from dkernel.model import ScaledComponents

# Rows whose components there are at one time: of 5,000 components no slower than more, in half the pages.
COMPONENT_STRIP = 512


def component_dtype(map: FeatureMap) -> str:
    """How the passes compute components: "tiles" if the map has a quick float32 loop, else "float64".

    It is the same on all processors: a narrow kernel of few features has columns whose rounding a setup of exact ones
    would not know.
    """
    return "tiles" if map.quick else "float64"


def with_intercept(
    components: ScaledComponents, X: NDArray[Any], made: str | None = None, into: NDArray[Any] | None = None
) -> NDArray[Any]:
    """The components of raw rows with their 1 at the end, (n, D + 1).

    Parameters
    ----------
    made : the type that they are made in, that of the map for None; or "tiles", in float32 as in the passes
    into : where they are written, in its type; else into an array of float64
    """
    F = np.empty((len(X), components.map.n_components + 1)) if into is None else into
    # In strips: what a kernel makes on the way stays in the caches, and no page of it is fresh.
    for start in range(0, len(X), COMPONENT_STRIP):
        rows = X[start : start + COMPONENT_STRIP]
        if made == "tiles":
            in_tiles(components, rows, out=F[start : start + COMPONENT_STRIP, :-1])
        else:
            scaled = components.scaling.apply(rows)
            F[start : start + COMPONENT_STRIP, :-1] = components.map.components(
                scaled, made or components.map.gram_dtype
            )
    F[:, -1] = 1.0
    return F
