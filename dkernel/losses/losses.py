"""The catalogue of losses by name, and the targets of classes.

Classification losses see one column of scores for each class against the rest (one column for two classes) and targets
-1, +1; regression losses see real targets. All are in the dtype of the scores.
"""

import math
import re

import numpy as np
from numpy.typing import NDArray

from dkernel.errors import RecipeError
from dkernel.losses.loss import Loss
from dkernel.losses.margin_losses import MARGIN_LOSSES, Hinge, Logistic, Perceptron, Softmax, SquaredHinge
from dkernel.losses.regression_losses import REGRESSION_LOSSES, EpsilonInsensitive, Huber, Quantile, Squared
from dkernel.numerics.validation import nearest_name

__all__ = [
    "LOSSES",
    "EpsilonInsensitive",
    "Hinge",
    "Huber",
    "Logistic",
    "Loss",
    "Perceptron",
    "Quantile",
    "Softmax",
    "Squared",
    "SquaredHinge",
    "parse_loss",
    "signs",
]

LOSSES: dict[str, Loss] = {loss.name: loss for loss in (*MARGIN_LOSSES, *REGRESSION_LOSSES)}


def parse_loss(text: str) -> Loss:
    """The loss of that name, with its own number where one stands in brackets.

    Examples
    --------
    >>> parse_loss("quantile(0.9)"), parse_loss("huber").text, parse_loss("huber(1.35)").text
    (Quantile(q=0.9), 'huber', 'huber')
    >>> parse_loss("auto").text  # the first of the catalogue, where nothing else is chosen
    'squared_hinge'
    """
    if text == "auto":
        return next(iter(LOSSES.values()))
    match = re.fullmatch(r"\s*(\w+)\s*(?:\(([^()]*)\))?\s*", text)
    name = match[1] if match else text
    if match is None or name not in LOSSES:
        raise RecipeError(f"loss={text!r} is unknown.{nearest_name(name, list(LOSSES))}")
    usual = LOSSES[name]
    if match[2] is None:
        return usual
    if not usual.needed:
        raise RecipeError(f"loss={text!r}: {name} takes no number. Write loss={name!r}.")
    try:
        number = float(match[2])
        made: Loss = type(usual)(number)  # type: ignore[call-arg]
        fits = math.isfinite(number) and made.is_valid()
    except ValueError:
        fits = False
    if not fits:
        raise RecipeError(f"loss={text!r}: the number of {name} is one {usual.needed}, as in {name}({usual.number!r}).")
    return made


def signs(codes: NDArray[np.integer], n_classes: int) -> NDArray[np.float32]:
    """-1, +1 targets (rows, C) of class numbers: one column for two classes, else one a class against the rest.

    Examples
    --------
    >>> signs(np.array([0, 2]), 3).tolist()
    [[1.0, -1.0, -1.0], [-1.0, -1.0, 1.0]]
    """
    if n_classes == 2:
        return (2 * codes - 1).astype(np.float32)[:, None]
    return np.where(codes[:, None] == np.arange(n_classes), np.float32(1), np.float32(-1))
