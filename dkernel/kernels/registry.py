"""Names of the user's functions, by which the text of a kernel and a model file refer to them.

No function is ever stored. A process that reads such a text must register the function first.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from dkernel.errors import RecipeError
from dkernel.numerics.validation import nearest_name

Registered = TypeVar("Registered", bound=Callable[..., Any])

UNREGISTERED = " (not registered)"


class UnregisteredError(RecipeError):
    """A text names a function, or a class of kernels, that is not registered."""


_FUNCTIONS: dict[str, Callable[..., Any]] = {}


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

    A function that is not registered has a name that is not either, so that no text reads back as something else.
    """
    function, name = kernel.function, kernel.name
    if isinstance(function, str):
        name = function
        if name not in _FUNCTIONS:
            name = name.removesuffix(UNREGISTERED)
            raise UnregisteredError(
                f"{type(kernel).__name__} was given the name {name!r}, and no function is registered under it."
                f"{nearest_name(name, list(_FUNCTIONS))} Say dkernel.register({name!r}, function) first, or name the "
                "module that says it: --import MODULE. A text and a model file hold the name alone."
            )
        function = _FUNCTIONS[name]
    elif not callable(function):
        raise RecipeError(f"{type(kernel).__name__} was given {function!r}; a function or its name is needed.")
    elif name is None:
        known = [key for key, value in _FUNCTIONS.items() if value is function]
        name = known[0] if known else f"{getattr(function, '__name__', type(function).__name__)}{UNREGISTERED}"
    object.__setattr__(kernel, "function", function)
    object.__setattr__(kernel, "name", str(name))
