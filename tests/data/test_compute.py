"""Tasks and collections are computed by the client, and by threads where there is none."""

import dask
import dask.array as da
import distributed  # noqa: F401  (Dask looks for a client once it is imported)
from dask import delayed

from dkernel import KernelClassifier
from dkernel.data.compute import dask_compute
from dkernel.data.opening import open_source
from tests.estimators.data import SMALL, ball


def test_the_scheduler_of_the_configuration_computes() -> None:
    with dask.config.set(scheduler=lambda *_, **__: ["mine"]):
        assert dask_compute(delayed(int)(3)) == ("mine",)


def test_a_scheduler_that_closed_clients_left_is_passed_over(tmp_path) -> None:
    """Dask leaves it after clients that are closed in the order in which they were opened."""
    X, y = ball(200)
    (tmp_path / "a.csv").write_text("x\n1\n2\n")
    with dask.config.set(scheduler="dask.distributed"):
        assert open_source(tmp_path / "a.csv").n_rows == 2
        machine = KernelClassifier(**SMALL).fit(da.from_array(X, chunks=(50, 3)), da.from_array(y, chunks=50))
        machine.partial_fit(X, y)
    assert machine.predict(X).shape == (200,)
