"""Modules of the user that register kernels, imported by `--import` here and in every worker.

A model file and the text of a kernel name a function, and do not have its code. A module is never imported because a
file names it, but only if the user does.
"""

import hashlib
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

from dkernel.errors import ClusterError, RecipeError

_MARK = "__dkernel_source__"
_CARRIED: dict[str, "UserModule"] = {}
_INSTALLED: set[str] = set()  # modules that runs have installed on this worker


@dataclass(frozen=True)
class UserModule:
    """A module that workers need too, by its name or with the text of its file, which they may not see.

    Parameters
    ----------
    path : path of the file, for tracebacks
    source : text of the file; None for a module that is installed on all machines
    """

    name: str
    path: str = ""
    source: str | None = None


def user_modules() -> tuple[UserModule, ...]:
    """The modules that this process was asked to import."""
    return tuple(_CARRIED.values())


def import_modules(names: Iterable[str]) -> None:
    """Import modules by name, or files that end in .py; a RecipeError names one that fails, and the reason.

    Examples
    --------
    >>> import_modules(["no_such_module"])
    Traceback (most recent call last):
    ...
    dkernel.errors.RecipeError: --import no_such_module: there is no such module. A file is named with its .py.
    """
    for name in names:
        module = _file(name) if name.endswith(".py") else UserModule(name)
        try:
            _import(module)
        except ModuleNotFoundError as error:
            # The module may exist, and another one that it imports may be missing.
            if error.name is None or module.source is not None or not f"{name}.".startswith(f"{error.name}."):
                raise RecipeError(f"--import {name}: {error}.") from error
            raise RecipeError(f"--import {name}: there is no such module. A file is named with its .py.") from None
        except Exception as error:
            raise RecipeError(f"--import {name}: {type(error).__name__}: {error}") from error
        _CARRIED[module.name] = module


def install(modules: Iterable[UserModule]) -> None:
    """Import the modules in this worker; a ClusterError names one that fails."""
    for module in modules:
        known = sys.modules.get(module.name)
        if module.source is not None and known is not None and not hasattr(known, _MARK):
            raise ClusterError(
                f"--import {module.path}: the worker has another module {module.name!r} in use. Rename the file."
            )
        try:
            new = module.source is not None and known is None
            _import(module)
            if new:
                _INSTALLED.add(module.name)
        except Exception as error:
            raise ClusterError(
                f"--import {module.name}: {type(error).__name__}: {error}. What is named so must be installed on every "
                "worker; of a file that is named with its .py the workers are sent the text."
            ) from error


def remove_installed() -> None:
    """Forget the modules that runs have installed in this process; other modules stay."""
    while _INSTALLED:
        sys.modules.pop(_INSTALLED.pop(), None)


def _file(name: str) -> UserModule:
    path = Path(name)
    try:
        source = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise RecipeError(f"--import {name}: the file cannot be read ({error}).") from None
    if not path.stem.isidentifier():
        raise RecipeError(f"--import {name}: {path.stem!r} is not a module name; letters, digits and _ are.")
    known = sys.modules.get(path.stem)
    if path.stem in sys.stdlib_module_names or (known is not None and not hasattr(known, _MARK)):
        raise RecipeError(f"--import {name}: there is another module {path.stem!r}. Rename the file.")
    return UserModule(path.stem, str(path.resolve()), source)


def _import(module: UserModule) -> None:
    if module.source is None:
        import_module(module.name)
        return
    mark = hashlib.sha256(module.source.encode()).hexdigest()
    if getattr(sys.modules.get(module.name), _MARK, None) == mark:
        return
    spec = spec_from_loader(module.name, loader=None, origin=module.path)
    assert spec is not None
    made = module_from_spec(spec)
    made.__file__ = module.path
    setattr(made, _MARK, mark)
    before = sys.modules.get(module.name)
    sys.modules[module.name] = made  # a dataclass looks for its own module
    try:
        exec(compile(module.source, module.path, "exec"), made.__dict__)
    except BaseException:
        sys.modules.pop(module.name)
        if before is not None:
            sys.modules[module.name] = before
        raise
