from tests.cli.conftest import data, run

__all__ = ["data", "run"]
