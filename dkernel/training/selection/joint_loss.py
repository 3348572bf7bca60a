"""The linear kernel with a loss that sees all classes at once, beside the best kernel of one class against the rest.

If the borders between many classes are planes, the border between one class and all others seldom is one. Then no
machine of one class against the rest is as good as a linear machine of all classes at once.
"""

import numpy as np

from dkernel.features import Scaling
from dkernel.losses.losses import Loss
from dkernel.losses.metrics import clearly_more
from dkernel.solvers.batch_methods import JUDGING_TOLERANCE, minimize
from dkernel.streaming.cost import COMPONENT64_FLOPS
from dkernel.training.selection.evaluation import CandidateLoss, Fidelity, FitValidationSplit

LEAST_JUDGED = 200  # fewest validation rows: with fewer the standard errors are some hundredths
JUDGING_READINGS = 25  # most readings of the rows for each alpha
JOINT_ALPHAS = (1e-3, 1e-4, 1e-5)  # tried one after the other, until the loss rises


def linear_flops(p: int, outputs: int, fidelity: Fidelity) -> float:
    """Return the flops of `fit_linear`: scores and gradients at three points a reading, exponentials, squares."""
    values = 3.0 * outputs * (4 * p + COMPONENT64_FLOPS["choice"])
    return fidelity.rows * (len(JOINT_ALPHAS) * JUDGING_READINGS * values + float(p) * p)


def fit_linear(
    scaling: Scaling, split: FitValidationSplit, loss: Loss, fidelity: Fidelity, alpha: str | float
) -> CandidateLoss:
    """Fit and judge the linear kernel with this loss for each alpha, until it rises; runs on a worker."""
    split, targets = split.part(fidelity.rows, fidelity.judged), split.targets
    F, G = (
        np.pad(scaling.apply(X, "float64").astype(np.float64), ((0, 0), (0, 1)), constant_values=1.0)
        for X in (split.X, split.X_judged)
    )
    Y, Y_judged = targets.of(split.y).astype(np.float64), targets.of(split.y_judged)
    w = np.ones(len(F)) if split.weight is None else split.weight
    best, start = CandidateLoss(np.inf, np.zeros((F.shape[1] - 1, targets.outputs))), None
    for each in (alpha,) if isinstance(alpha, float) else JOINT_ALPHAS:
        start = minimize(F, Y, w / w.sum(), loss, each, 1.0, JUDGING_TOLERANCE, JUDGING_READINGS, start).v
        S = G @ start
        mean = float(np.average(loss.value(Y_judged, S).sum(axis=1), weights=split.weight_judged))
        if not mean < best.loss:
            break
        best = CandidateLoss(mean, start[:-1], each, start[-1], wrong=S.argmax(axis=1) != Y_judged.argmax(axis=1))
    return best


def compare_errors(joint: CandidateLoss, usual: CandidateLoss) -> tuple[float, float] | None:
    """Return the shares of wrong labels of a joint loss and of the usual one; None unless the latter has clearly more.

    Both judge the same rows.
    """
    assert joint.wrong is not None
    assert usual.wrong is not None
    one, other = joint.wrong.astype(np.float64), usual.wrong.astype(np.float64)
    return (float(one.mean()), float(other.mean())) if clearly_more(other, one, None) else None
