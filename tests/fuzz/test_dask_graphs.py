"""An answer to rows of Dask lies beside them: whatever made the rows, and whatever is done with the answer."""

from functools import partial

import distributed
import pytest

from tests.fuzz.dask_graphs import SORTS, Known, answers, try_all, try_array, try_table

TABLES, ARRAYS = range(160), range(40)
OF_CLUSTER = range(1000, 1012)
MANY, BATCHES = 3000, 10


@pytest.fixture(scope="module")
def known() -> Known:
    return answers()


@pytest.mark.parametrize("batch", range(BATCHES))
def test_answers_of_a_dataframe(batch, known, tmp_path):
    try_all(TABLES[batch::BATCHES], partial(try_table, known=known, folder=tmp_path))


def test_answers_of_an_array(known):
    try_all(ARRAYS, partial(try_array, known=known))


@pytest.mark.cluster
def test_answers_on_a_cluster(shared_cluster, known, tmp_path):
    with distributed.Client(shared_cluster):
        # Without dkernel too Dask's client waits for ever for dd.concat([q, q[q.b > 0]]).sort_values("b").assign(z=1).
        try_all(OF_CLUSTER, partial(try_table, known=known, folder=tmp_path, without=SORTS))
        try_all(OF_CLUSTER, partial(try_array, known=known))


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(BATCHES))
def test_many_answers(batch, known, tmp_path):
    try_all(range(batch, MANY, BATCHES), partial(try_table, known=known, folder=tmp_path))
    try_all(range(batch, MANY, BATCHES), partial(try_array, known=known))
