from tests.cli.conftest import data, here

__all__ = ["data", "here"]
