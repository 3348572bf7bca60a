"""Units are shared out so that no worker has more to read than it must."""

from hypothesis import given
from hypothesis import strategies as st

from dkernel.run.readers import readers


@given(units=st.integers(0, 40), held=st.lists(st.integers(0, 9), min_size=1, max_size=7))
def test_each_unit_has_one_reader_and_who_has_more_gets_none(units, held):
    before = {f"worker {i}": n for i, n in enumerate(held)}
    found = readers(units, before)
    assert sorted(number for mine in found.values() for number in mine) == [*range(units)]
    after = {worker: n + len(found.get(worker, ())) for worker, n in before.items()}
    # Nobody could hand a unit on to somebody who then still has fewer.
    for worker in found:
        assert after[worker] - 1 <= min(after.values())
    assert readers(units, dict(reversed(before.items()))) == found


def test_without_a_word_in_it_dask_says_who():
    assert readers(3, {}) == {None: [0, 1, 2]}
    assert readers(0, {}) == readers(0, {"worker": 2}) == {}
