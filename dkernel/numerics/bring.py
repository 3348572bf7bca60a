"""Compiles all loops for the levels of this architecture: where an installation brings them, no process does.

    python -m dkernel.numerics.bring

For an image, or before `pip wheel .`: they are files beside the code, and a process of another compiler or processor
finds none of them. Not for each `pip install`: it takes 54 CPU seconds, and the loops of a fit some 3 once.
"""

import os
import pkgutil
import platform
import subprocess
import sys
from contextlib import suppress
from importlib import import_module

from dkernel.numerics import loops
from dkernel.numerics.machine_code import BROUGHT, LEVELS


def bring_levels() -> None:
    """Compile for each level, in a process of its own: LLVM compiles for processors that are not there."""
    BROUGHT.mkdir(exist_ok=True)
    if platform.machine() not in ("x86_64", "AMD64"):
        return
    for name, features in LEVELS.items():
        told = {"NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": features, "NUMBA_CACHE_DIR": str(BROUGHT)}
        command = [sys.executable, "-c", "from dkernel.numerics.bring import load_every; load_every()"]
        subprocess.run(command, env=os.environ | told, check=True)


def load_every() -> None:
    """Load the loops of all modules, which compiles those that are not there."""
    for module in pkgutil.walk_packages([str(BROUGHT.parents[1])], "dkernel."):
        with suppress(ImportError):  # of a package that is not installed
            if not module.name.endswith("__main__"):
                import_module(module.name)
    for loop in loops.every:
        loop.load()


if __name__ == "__main__":
    bring_levels()
