"""How many components are enough, judged from the gain of a doubling."""

from collections.abc import Callable, Sequence

import numpy as np

from dkernel.selection.evaluation import CandidateLoss, Fidelity

# Where a doubling of the components wins half of what the one before won, all doublings to come win together as much as
# the last one did. Under this share of the loss, a standard error of it added, there are enough; above the second, one
# more doubling cannot show it; above the third none is enough: at 512 landmarks it is 1.04 of kin40k, .37 of letter,
# .08 of california, .02 of magic. Of 10,000 rows of magic .01 takes 2,560 landmarks and twice the work of .015, which
# takes 1,024, for test errors of 12.09 and 11.86 in place of 12.04 and 11.83 %.
ENOUGH, FAR_FROM_ENOUGH, ROUGH = 0.015, 0.04, 0.75


def enough_of(levels: Sequence[Fidelity], judged: Callable[[Fidelity], CandidateLoss]) -> tuple[int | None, bool]:
    """Components beyond which there is little to gain, None where that is not known; and whether no number is enough.

    Parameters
    ----------
    levels : the fewest components first, each with half as many judged beside it
    """
    for level in levels:
        found = judged(level)
        if found.gain + found.error < ENOUGH * found.loss:
            return level.components, False
        if not found.gain < FAR_FROM_ENOUGH * found.loss:
            return None, ROUGH * found.loss < found.gain - found.error < np.inf
    return None, False
