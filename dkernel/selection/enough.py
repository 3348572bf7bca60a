"""How many components are enough, judged from the gain of a doubling."""

from collections.abc import Sequence
from dataclasses import replace

from dkernel.problem.sizes import LEAST_COMPONENTS
from dkernel.selection.candidates import Candidate
from dkernel.selection.evaluation import Fidelity
from dkernel.selection.judge import Judge
from dkernel.selection.rungs import ENOUGH_JUDGED

# Where a doubling of the components wins half of what the one before won, all doublings to come win together as much as
# the last one did. Under this share of the loss, a standard error of it added, there are enough; above the second, one
# more doubling cannot show it: at 512 landmarks it is 1.04 of kin40k, .37 of letter, .08 of california, .02 of magic.
# Of 10,000 rows of magic .01 takes 2,560 landmarks and twice the work of .015, which takes 1,024, for test errors of
# 12.09 and 11.86 in place of 12.04 and 11.83 %.
ENOUGH_GAIN, FAR_FROM_ENOUGH = 0.015, 0.04


def enough_components(judge: Judge, candidate: Candidate, fidelities: Sequence[Fidelity]) -> int | None:
    """Components beyond which there is little to gain, None where that is not known.

    Parameters
    ----------
    fidelities : the fewest components first, each judged with half of its landmarks too
    """
    if candidate.plain and 2 * judge.p <= LEAST_COMPONENTS:
        return 2 * judge.p  # half of them are all features
    if judge.drawing is not None or len(judge.split.X_judged) < ENOUGH_JUDGED:
        return None
    for fidelity in fidelities:
        level = replace(fidelities[-1], components=fidelity.components, halved=True)
        if 2 * judge.within(level).components > judge.components:
            continue
        result = judge.trials([candidate], level)[0].result
        if result.gain + result.error < ENOUGH_GAIN * result.loss:
            return level.components
        if not result.gain < FAR_FROM_ENOUGH * result.loss:
            return None
    return None
