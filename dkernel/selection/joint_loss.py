"""The linear kernel with a loss that sees all classes at once, beside the best kernel of one class against the rest.

Of many classes whose borders are planes few are planes themselves between one class and all others, so that no machine
of one class against the rest is as good as a linear one of all at once.
"""

from dataclasses import replace

import numpy as np

from dkernel.cost import COMPONENT64_FLOPS
from dkernel.features import Scaling
from dkernel.kernels import Linear
from dkernel.linear.losses import Loss
from dkernel.linear.solvers.full_batch import minimize
from dkernel.problem.targets import Targets
from dkernel.selection.candidates import SelectedModel
from dkernel.selection.evaluation import CandidateLoss, Fidelity, FitValidationSplit

# Of fits that only judge an alpha: by how much scores may still move, and readings of the rows at most.
JUDGING_TOLERANCE, JUDGING_READINGS = 1e-3, 25
LEAST_JUDGED = 200  # rows: fewer have standard errors of some hundredths
JOINT_ALPHAS = (1e-3, 1e-4, 1e-5)  # one after the other, until the loss rises


def linear_flops(p: int, outputs: int, fidelity: Fidelity) -> float:
    """Predicted, of `fit_linear`: scores and gradients at three points a reading, exponentials, squares."""
    values = 3.0 * outputs * (4 * p + COMPONENT64_FLOPS["choice"])
    return fidelity.rows * (len(JOINT_ALPHAS) * JUDGING_READINGS * values + float(p) * p)


def fit_linear(
    scaling: Scaling, half: FitValidationSplit, loss: Loss, targets: Targets, fidelity: Fidelity, alpha: str | float
) -> CandidateLoss:
    """Fit and judge the linear kernel for each alpha, until the loss rises; runs on a worker."""
    F, G = (
        np.pad(scaling.apply(X, "float64").astype(np.float64), ((0, 0), (0, 1)), constant_values=1.0)
        for X in (half.X[: fidelity.rows], half.X_judged[: fidelity.judged])
    )
    Y = targets.of(half.y[: fidelity.rows]).astype(np.float64)
    Y_judged = targets.of(half.y_judged[: fidelity.judged])
    w = np.ones(len(F)) if half.weight is None else half.weight[: fidelity.rows]
    weight_judged = None if half.weight_judged is None else half.weight_judged[: fidelity.judged]
    best, start = CandidateLoss(np.inf, np.zeros((F.shape[1] - 1, targets.outputs))), None
    for each in (alpha,) if isinstance(alpha, float) else JOINT_ALPHAS:
        start = minimize(F, Y, w / w.sum(), loss, each, 1.0, JUDGING_TOLERANCE, JUDGING_READINGS, start).v
        S = G @ start
        mean = float(np.average(loss.value(Y_judged, S).sum(axis=1), weights=weight_judged))
        if not mean < best.loss:
            break
        best = CandidateLoss(mean, start[:-1], each, start[-1], wrong=S.argmax(axis=1) != Y_judged.argmax(axis=1))
    return best


def better_of(
    selected: SelectedModel,
    judged: CandidateLoss,
    scaling: Scaling,
    linear: CandidateLoss,
    loss: Loss,
    usual: Loss,
    share: float,
) -> SelectedModel:
    """The choice, or the linear kernel where it has fewer wrong labels by more than one standard error.

    Parameters
    ----------
    judged : of the choice's kernel, with the `usual` loss, on the rows of `linear`
    share : of the rows, that were fitted: more want a smaller alpha, as a support vector machine's C stays as it is
    """
    assert judged.wrong is not None
    assert linear.wrong is not None
    errors = [float(each.mean()) for each in (linear.wrong, judged.wrong)]
    gain = judged.wrong.astype(np.float64) - linear.wrong
    if not gain.mean() > gain.std() / np.sqrt(len(gain)):
        return selected
    kernel = Linear()
    said = f"{loss.text} with {kernel!r}: error {errors[0]:.4g} on {len(gain):,} other rows, and {errors[1]:.4g} of "
    why = {"loss": f"{said}{usual.text} with {selected.kernel!r}"}
    return replace(
        selected,
        kernel=kernel,
        scaling=scaling,
        why=why,
        metric="identity",
        weights=None,
        enough=None,
        alpha=share * linear.alpha,
        loss=loss.text,
    )
