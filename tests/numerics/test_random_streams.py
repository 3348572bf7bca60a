"""Random numbers are functions of seed, purpose and index, and of nothing else."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dkernel.numerics.random_streams import row_hash, stream


def test_every_part_of_the_name_matters():
    names = [(0, "a"), (1, "a"), (0, "b"), (0, "a", 0), (0, "a", 1), (0, "a", 0, 0), (0, "a", 10), (0, "a", 1, 0)]
    draws = [stream(*name).integers(2**63) for name in names]
    assert len(set(draws)) == len(names)
    assert [stream(*name).integers(2**63) for name in names] == draws


def test_the_numbers_of_a_seed_are_these_for_ever():
    assert row_hash(0, "reservoir", 0, 2).tolist() == [1607681229377228855, 3086321227526743445]
    assert stream(7, "frequencies", 3).integers(2**32, size=2).tolist() == [2908146372, 949178572]


@given(
    seed=st.integers(0, 2**40),
    first=st.integers(0, 2**50),
    n=st.integers(0, 200),
    step=st.integers(1, 1000),
    cut=st.integers(0, 200),
)
def test_a_row_has_the_same_bits_in_every_chunk(seed, first, n, step, cut):
    cut = min(cut, n)
    whole = row_hash(seed, "holdout", first, n, step)
    parts = [row_hash(seed, "holdout", first, cut, step), row_hash(seed, "holdout", first + cut * step, n - cut, step)]
    assert np.concatenate(parts).tolist() == whole.tolist()
    singles = [int(row_hash(seed, "holdout", first + i * step, 1)[0]) for i in range(min(n, 5))]
    assert singles == whole[:5].tolist()


def test_hashes_are_uniform_and_different():
    hashes = row_hash(3, "reservoir", 10**6, 2**18)
    assert len(np.unique(hashes)) == len(hashes)
    counts = np.bincount((hashes >> np.uint64(56)).astype(int), minlength=256)
    statistic = ((counts - 1024.0) ** 2 / 1024).sum()
    assert 255 - 6 * 510**0.5 < statistic < 255 + 6 * 510**0.5
    bits = (hashes[:, None] >> np.arange(64, dtype=np.uint64) & np.uint64(1)).mean(axis=0)
    assert np.abs(bits - 0.5).max() < 6 * 0.5 / 2**9


def test_seeds_and_purposes_choose_different_rows():
    samples = [row_hash(seed, name, 0, 5000) for seed, name in ((0, "reservoir"), (1, "reservoir"), (0, "holdout"))]
    for a in range(3):
        for b in range(a):
            correlation = np.corrcoef(samples[a].astype(float), samples[b].astype(float))[0, 1]
            assert abs(correlation) < 6 / 5000**0.5
