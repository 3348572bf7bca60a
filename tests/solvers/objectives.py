"""Objectives of a map of rows, without any fit."""

import numpy as np

from dkernel.features import Scaling
from dkernel.losses.losses import parse_loss
from dkernel.model.model import ScaledComponents
from dkernel.solvers.objective import Objective
from dkernel.solvers.targets import Targets


def objective_of(map, loss="squared", classes=None):
    """The loss of a map whose rows are not scaled, for numbers or for classes."""
    scaling = Scaling("none", np.zeros(map.n_in), np.ones(map.n_in))
    return Objective(ScaledComponents(scaling, map), parse_loss(loss), Targets(classes))
