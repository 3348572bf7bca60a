"""An answer to rows of Dask lies beside them: whatever made the rows, and whatever is done with the answer."""

from pathlib import Path
from tempfile import TemporaryDirectory

import distributed
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.combinations import examples
from tests.fuzz.dask_graphs import SORTS, STEPS, try_array, try_table

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.usefixtures("batches")
@examples(60)
@given(st.data())
def test_answers_of_a_dataframe(data):
    with TemporaryDirectory() as folder:
        try_table(data.draw, Path(folder))


@pytest.mark.usefixtures("batches")
@examples(40)
@given(st.data())
def test_answers_of_an_array(data):
    try_array(data.draw)


@pytest.fixture(scope="module")
def client(shared_cluster):
    with distributed.Client(shared_cluster) as client:
        yield client


@pytest.mark.cluster
@pytest.mark.usefixtures("client")
@examples(4)
@given(st.data())
def test_answers_on_a_cluster(data):
    with TemporaryDirectory() as folder:
        # Without dkernel too Dask's client waits for ever for dd.concat([q, q[q.b > 0]]).sort_values("b").assign(z=1).
        try_table(data.draw, Path(folder), STEPS.keys() - SORTS)
        try_array(data.draw)
