"""Small models of every solver, map, loss and storage have the bits that they had: see tests/golden/sums.py."""

import pytest

from tests.golden.cases import CASES
from tests.golden.sums import changed, family, kept, sums, told

SUMS = kept()


@pytest.mark.skipif(SUMS is None, reason=f"no sums for this processor and these libraries: {family()}")
@pytest.mark.parametrize("name", CASES)
def test_the_bits_are_what_they_were(name):
    assert name in SUMS, "A new case: python -m tests.golden.sums writes its sums."
    if SUMS[name] is None:
        pytest.skip("a commit from a machine of another family changed it: python -m tests.golden.sums writes its sums")
    now = sums(name)
    assert not changed(SUMS[name], now), (
        f"{told(name, SUMS[name], now)}. If that is meant, `python -m tests.golden.sums` writes the new sums; the "
        "commit says which changed and why."
    )


@pytest.mark.skipif(SUMS is None, reason="no sums for this processor and these libraries")
def test_every_sum_has_a_case():
    assert set(SUMS) == set(CASES)


def test_a_change_is_told_with_what_it_did_to_the_figures():
    before = {"model": "a", "scores": "b", "holdout": 0.25, "error": 0.5}
    now = before | {"scores": "c", "holdout": 0.125}
    assert changed(before, before) == []
    assert (
        told("psgd", before, now)
        == "psgd: scores changed, holdout 0.25 -> 0.125 (-1.2e-01), error 0.5 -> 0.5 (+0.0e+00)"
    )
    assert told("psgd", None, now) == "psgd: new, holdout 0.125, error 0.5"
