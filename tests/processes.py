"""Processes that tests start: they find this tree as the tests do."""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
DKERNEL = (sys.executable, "-m", "dkernel")


def environment(**more: str) -> dict[str, str]:
    """The variables of this process, with the path of its imports, and others."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)]), **more}
