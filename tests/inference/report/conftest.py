from tests.cli.conftest import data

__all__ = ["data"]
