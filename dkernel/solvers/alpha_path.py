"""Coefficients for each alpha of a path, side by side, and what their solvers share: preconditioners and metric."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from dkernel.losses.losses import Loss
from dkernel.numerics import thin_linalg
from dkernel.numerics.array_types import F64
from dkernel.solvers.preconditioner import Metric, Preconditioner


@dataclass(frozen=True, eq=False)
class AlphaPath:
    """Settings of the heads of each alpha: its outputs, columns of v.

    Parameters
    ----------
    preconditioners, alphas : one for each λ of the path
    metric : M of the coordinates
    loss : whose curvature bounds the step
    outputs : heads of each λ
    shares : of the step, for each λ; None for the whole step, above 1 the whole step with momentum that goes as many
        times as far. Where labels are noisy a small step averages more noise away in a pass, where they are not a large
        one goes farther: the holdout can tell, a rule cannot
    """

    preconditioners: Sequence[Preconditioner]
    alphas: Sequence[float]
    metric: Metric
    loss: Loss
    outputs: int
    shares: Sequence[float] | None = None

    def only(self, paths: Sequence[tuple[int, float]]) -> Self:
        """Some of its paths, each with a share of the step; a path may come twice."""
        return replace(
            self,
            preconditioners=[self.preconditioners[j] for j, _ in paths],
            alphas=[self.alphas[j] for j, _ in paths],
            shares=[share for _, share in paths],
        )

    def by_preconditioner(self) -> list[tuple[Preconditioner, list[int]]]:
        """List each preconditioner with its heads: alphas below ρ share one, and one solve is cheaper than several."""
        groups: dict[int, tuple[Preconditioner, list[int]]] = {}
        for j, P in enumerate(self.preconditioners):
            heads = groups.setdefault(id(P), (P, []))[1]
            heads += range(j * self.outputs, (j + 1) * self.outputs)
        return list(groups.values())

    def regularizer(self, v: F64) -> F64:
        """M v, nothing for the intercept."""
        out = np.zeros_like(v)
        if isinstance(self.metric, float):
            out[:-1] = self.metric * v[:-1]
        else:
            out[:-1] = thin_linalg.product(self.metric, v[:-1])
        return out
