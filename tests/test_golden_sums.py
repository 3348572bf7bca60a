"""Small models of every solver, map, loss and storage have the scores and bits that they had: tests/golden/sums.py."""

import pytest

from tests.golden.cases import CASES
from tests.golden.sums import compare, distance, family, kept, sums

KEPT = kept()
SAME_FAMILY = KEPT["family"] == family()
SHARE = 1e-4  # of the range of the scores, by which those of another processor may differ
# Where settings are chosen among near equals, or a polynomial has loss 6e-6, rounding decides more.
WIDER = {"psgd, everything open": 0.02, "cells, regression": 1e-3, "exact map": 1e-3}


@pytest.mark.parametrize("name", CASES)
def test_scores_and_bits_are_what_they_were(name):
    assert name in KEPT["models"], "A new case: python -m tests.golden.sums writes its sums."
    before, now = KEPT["models"][name], sums(name)
    assert distance(before, now) <= WIDER.get(name, SHARE)
    changed = compare(before, now) if SAME_FAMILY else ""
    assert not changed, "If that is meant, `python -m tests.golden.sums` writes the new sums; the commit says why."


def test_every_sum_has_a_case():
    assert set(KEPT["models"]) == set(CASES)


def test_a_change_is_told_with_what_it_did_to_the_figures():
    before = {"model": "a", "scores": "b", "holdout": 0.25, "error": 0.5, "numbers": [0.0, 2.0, 4.0]}
    now = before | {"scores": "c", "holdout": 0.125, "numbers": [0.0, 2.0, 4.5]}
    assert compare(before, before) == ""
    assert compare(before, now) == "scores, holdout 0.25 -> 0.125, error 0.5 -> 0.5"
    assert distance(before, now) == 0.125
