"""How fits are compared on the holdout: stages behind the same components, and ways, by one rule."""

import numpy as np
import pytest

from dkernel.training.holdout_losses import HoldoutLosses, find_best
from dkernel.training.selection.evaluation import CandidateLoss
from dkernel.training.selection.joint_loss import compare_errors
from dkernel.training.stage_result import StageResult, best_stage

ROWS = 400


def losses(mean, wrong=None, loss="squared_hinge"):
    """Losses of rows around a mean; `wrong` rows by chance have a wrong label."""
    of_rows = mean * np.tile([0.9, 1.1], ROWS // 2)
    labels = None if wrong is None else np.random.default_rng(wrong).permutation(np.arange(ROWS) < wrong) * 1.0
    return HoldoutLosses(loss, of_rows, labels, np.ones(ROWS))


TABLE = [
    ([losses(0.3), losses(0.2)], 1),  # numbers
    ([losses(0.3, 50), losses(0.2, 50)], 1),
    ([losses(0.3, 50), losses(0.2, 70)], 0),  # the smaller loss has spoilt labels
    ([losses(0.3, 50), losses(0.2, 51)], 1),  # by no more than one standard error
    ([losses(0.3, 50), losses(0.1, 70), losses(0.2, 50)], 2),
    ([losses(0.3, 50), losses(0.3001, 50), losses(0.29999, 50)], 2),  # each row is better by as much
    ([losses(0.3, 50), losses(0.2, 51, "softmax")], 0),  # of other kinds only the labels tell
]


@pytest.mark.parametrize(("judged", "best"), TABLE)
def test_the_smallest_loss_wins_unless_it_spoils_labels(judged, best):
    assert find_best(judged) == best


@pytest.mark.parametrize(("judged", "best"), TABLE[:-1])
def test_stages_are_compared_as_ways_are(judged, best):
    stages = [StageResult("machine", [], {}, "why", losses=each) for each in judged]
    assert best_stage([StageResult(None, [], {}, "none: no gain"), *stages]).losses is judged[best]


@pytest.mark.parametrize(
    ("more", "fewer", "clear"),
    [(1, 0, False), (2, 0, False), (3, 0, True), (5, 4, False), (9, 4, True), (0, 3, False)],
)
@pytest.mark.parametrize("weight", [1.0, 3.0])
def test_a_single_row_spoils_no_labels(more, fewer, clear, weight):
    """A row that differs is above its own standard error however many others do not."""
    at = np.arange(ROWS)
    spoilt, other = at < more, (at >= more) & (at < more + fewer)
    one, two = (HoldoutLosses("squared", at, wrong * 1.0, np.full(ROWS, weight)) for wrong in (spoilt, other))
    assert one.spoils_labels(two) is clear
    usual, joint = (CandidateLoss(0.5, np.zeros(1), wrong=wrong) for wrong in (spoilt, other))
    assert (compare_errors(joint, usual) is not None) is clear


@pytest.mark.parametrize(
    ("errors", "left", "behind"),
    [
        ([0.4, 0.3, 0.25, 0.22, 0.2], 4, True),
        ([0.4, 0.3, 0.25, 0.22, 0.2], 40, False),  # it may still come down
        ([0.4, 0.3, 0.22, 0.2], 1, False),  # four steps show no pace
        ([0.24, 0.24, 0.24, 0.22, 0.2], 10, False),
    ],
)
@pytest.mark.parametrize("labels", [True, False])
def test_a_stage_stays_behind_where_its_pace_leaves_it_above_another(errors, left, behind, labels):
    def judged(error):
        return losses(0.1, round(error * ROWS)) if labels else losses(error)

    last = judged(errors[-1])
    assert last.error == pytest.approx(errors[-1])
    assert last.stays_behind(judged(0.05), errors, left) is behind
    assert not last.stays_behind(None, errors, left)
    assert not last.stays_behind(judged(errors[-1]), errors, 0)  # it is no worse


def test_labels_tell_of_a_smaller_loss():
    ahead, rival = losses(0.1, 80), losses(0.3, 20)
    assert ahead.stays_behind(rival, [0.2] * 8, 4)
    assert not rival.stays_behind(ahead, [0.05] * 8, 4)
