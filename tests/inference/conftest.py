"""Workers that the tests of scoring share."""

import pytest

from dkernel.execution.connect import connect


@pytest.fixture(scope="package")
def two_workers():
    """Two worker processes for all tests of scoring that want no others."""
    with connect(workers=2) as executor:
        yield executor
