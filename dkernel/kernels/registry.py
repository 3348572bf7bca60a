"""Names of the user's functions, by which the text of a kernel and a model file refer to them.

No function is ever stored. A process that reads such a text must register the function first. A function that nobody
registers gets a name that no other process gives: texts of this run read back, and no model file holds it.
"""

from collections.abc import Callable
from itertools import count
from typing import Any, TypeVar
from uuid import uuid4

from dkernel.errors import RecipeError
from dkernel.numerics.validation import nearest_name

Registered = TypeVar("Registered", bound=Callable[..., Any])

_NOT_REGISTERED = " (not registered, "
_OF_THIS_PROCESS = uuid4().hex[:8]


class UnregisteredError(RecipeError):
    """A text names a function, or a class of kernels, that is not registered."""


_FUNCTIONS: dict[str, Callable[..., Any]] = {}
_NAMELESS: dict[str, Callable[..., Any]] = {}


def register(name: str, function: Any = None) -> Any:
    """Give a function or a class of kernels a name in the texts of kernels; also as a decorator.

    Parameters
    ----------
    name : str
        Name.
    function : callable or type, default=None
        Function, or class of kernels; None where this is a decorator.

    Returns
    -------
    callable or type
        The function itself.

    Raises
    ------
    RecipeError
        If the name is not an identifier, or belongs to another function.

    See Also
    --------
    parse : Read the text of a kernel.
    FunctionKernel : Kernel of a function.

    Examples
    --------
    >>> import numpy as np
    >>> @register("least")
    ... def least(X, Z):
    ...     return np.minimum(X, Z.T)
    >>> from dkernel.kernels import parse
    >>> parse("FunctionKernel('least')")(np.array([[1.0], [2.0]]))
    array([[1., 1.],
           [1., 2.]])
    """
    if not isinstance(name, str) or not name.strip():
        raise RecipeError(f"A function was registered as {name!r}; a name in text is needed.")
    if function is None:
        return lambda later: register(name, later)
    if not callable(function):
        raise RecipeError(f"{function!r} was registered as {name!r}; a function is needed.")
    if isinstance(function, type) and function.__name__ != name:
        raise RecipeError(
            f"The class {function.__name__} was registered as {name!r}; its text begins with its own name, so register "
            f"it as {function.__name__!r}."
        )
    _FUNCTIONS[name] = function
    return function


def registered_class(name: str) -> type | None:
    """The class of kernels registered under a name, in any case."""
    for known, function in _FUNCTIONS.items():
        if isinstance(function, type) and known.lower() == name.lower():
            return function
    return None


def fill_name(kernel: Any) -> None:
    """Fill the fields `function` and `name` of a kernel of a function: a text is looked up, a function gets its name.

    A function that is not registered has a name of this process, so that no text reads back as something else.
    """
    function, name = kernel.function, kernel.name
    if isinstance(function, str):
        name = function
        if name not in _FUNCTIONS | _NAMELESS:
            name = name.partition(_NOT_REGISTERED)[0]
            raise UnregisteredError(
                f"{type(kernel).__name__} was given the name {name!r}, and no function is registered under it."
                f"{nearest_name(name, list(_FUNCTIONS))} Say dkernel.register({name!r}, function) first, or name the "
                "module that says it: --import MODULE. A text and a model file hold the name alone."
            )
        function = (_FUNCTIONS | _NAMELESS)[name]
    elif not callable(function):
        raise RecipeError(f"{type(kernel).__name__} was given {function!r}; a function or its name is needed.")
    elif name is None:
        known = [key for key, value in _FUNCTIONS.items() if value is function]
        name = known[0] if known else _name_function(function)
    object.__setattr__(kernel, "function", function)
    object.__setattr__(kernel, "name", str(name))


def is_registered(name: str) -> bool:
    """True for the name of a kernel's function that other processes can have."""
    return _NOT_REGISTERED not in name


def know_function(name: str, function: Callable[..., Any]) -> None:
    """Let texts of another process name a function that came from there, and is not registered."""
    if not is_registered(name):
        _NAMELESS.setdefault(name, function)


def explain_name(name: str) -> str:
    """What to write for a function whose name was taken for that of a kernel; nothing where it is none."""
    return f" {name!r} is a registered function: write FunctionKernel({name!r})." if name in _FUNCTIONS else ""


def _name_function(function: Callable[..., Any]) -> str:
    """The name of a function that is not registered; another one for each function."""
    own = getattr(function, "__name__", type(function).__name__)
    for number in count(1):
        name = f"{own}{_NOT_REGISTERED}{_OF_THIS_PROCESS}-{number})"
        if _NAMELESS.setdefault(name, function) is function:
            return name
    raise AssertionError
