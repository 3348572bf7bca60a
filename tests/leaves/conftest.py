"""Fixtures of the commands that tests of leaves run."""

from tests.cli.conftest import data, here, model, shell, stripes

__all__ = ["data", "here", "model", "shell", "stripes"]
