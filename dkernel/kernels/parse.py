"""The text form of a kernel, read back: `parse(repr(k)) == k`, and what a user types after `--kernel`.

The text is read as Python syntax and walked over a short list of allowed nodes; nothing in it is ever run.
"""

import ast
import inspect
import warnings
from collections.abc import Callable
from typing import Any

from dkernel.errors import RecipeError
from dkernel.kernels import additive, dot, functions, radial, stationary, transforms
from dkernel.kernels.base import Kernel
from dkernel.kernels.of_scikit_learn import explain_kernel
from dkernel.kernels.parameters import is_number, refuse_arguments
from dkernel.kernels.registry import UnregisteredError, explain_name, registered_class
from dkernel.leaf_table import LEAF_OF_KERNEL, load_leaf
from dkernel.numerics.validation import nearest_name

LONGEST_TEXT = 200_000  # a sum of thousands of kernels; longer texts are attacks on the parser
_MODULES = (dot, stationary, radial, additive, functions, transforms)
_UNNAMED = (transforms.Selection,)  # its text is .on(...)
_ALIASES = {"rbf": "gaussian", "poly": "polynomial"}
_OF_SCIKIT_LEARN = {
    "sigmoid": "It is not positive semi-definite; use Gaussian().",
    "cosine": "Use Normalized(Linear()).",
    "precomputed": "A kernel takes rows, not their Gram matrix; register a function of two blocks of rows.",
}
"""Word for a kernel in scikit-learn that has none here -> what to do."""
_EXAMPLE = "A kernel looks like Gaussian(gamma=0.1) or 0.5 * Laplacian() + Linear()."


def _known_classes() -> dict[str, type[Kernel]]:
    members = [getattr(module, name) for module in _MODULES for name in module.__all__]
    classes = {cls.__name__.lower(): cls for cls in members if not inspect.isabstract(cls) and cls not in _UNNAMED}
    return classes | {alias: classes[name] for alias, name in _ALIASES.items()}


_CLASSES = _known_classes()


def kernel_names() -> tuple[str, ...]:
    """The names that `parse` knows, in lower case.

    Examples
    --------
    >>> "rbf" in kernel_names()
    True
    """
    return (*_CLASSES, *LEAF_OF_KERNEL)


def parse(text: str | Kernel | Callable[..., Any]) -> Kernel:
    """Make the kernel that a text describes, or the one of a function; a kernel is returned as it is.

    Parameters
    ----------
    text : str, Kernel or callable
        A name in any case ("gaussian", "rbf", "Laplacian"), a name with its parameters, or sums, products and positive
        multiples of these, with parentheses.

    Returns
    -------
    Kernel
        The kernel.

    Raises
    ------
    RecipeError
        If the text is no kernel.

    See Also
    --------
    register : Add a name.

    Examples
    --------
    >>> parse("rbf")
    Gaussian(gamma='auto')
    >>> parse("0.5 * (Gaussian(sigma=2) + linear)")
    0.5 * (Gaussian(gamma=0.125) + Linear())
    """
    if isinstance(text, Kernel):
        return text
    if type(text).__module__ == "sklearn.gaussian_process.kernels":
        raise RecipeError(f"{text!r} is a kernel of scikit-learn. {explain_kernel(text)}")
    if callable(text) and not isinstance(text, type):
        return functions.FunctionKernel(text)
    if not isinstance(text, str):
        raise RecipeError(f"A kernel was given as {text!r}; a kernel or its text is needed. {_EXAMPLE}")
    if len(text) > LONGEST_TEXT:
        raise RecipeError(f"A kernel was given as a text of {len(text)} characters; at most {LONGEST_TEXT} are read.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python's advice about odd literals; what is odd is refused below
            value = _Reader(text).read(ast.parse(" ".join(text.split()), mode="eval").body)
    except (SyntaxError, ValueError, OverflowError, MemoryError, RecursionError) as error:
        if isinstance(error, RecipeError):
            raise
        why = getattr(error, "msg", error)
        raise RecipeError(f"The kernel {_short(text)} cannot be read: {why}. {_EXAMPLE}") from None
    if not isinstance(value, Kernel):
        raise RecipeError(f"The kernel {_short(text)} is {value!r} and no kernel. {_EXAMPLE}")
    return value


def _short(text: str) -> str:
    return repr(text if len(text) <= 200 else text[:200] + "...")


class _Reader:
    """One walk over the syntax tree of one text."""

    def __init__(self, text: str) -> None:
        self._text = text

    def read(self, node: ast.expr) -> Any:
        """The number, text, kernel, or tuple of these that a node stands for."""
        match node:
            case ast.Constant(value=value) if isinstance(value, str) or is_number(value):
                return value
            case ast.UnaryOp(op=ast.USub() | ast.UAdd() as sign, operand=operand):
                value = self.read(operand)
                if isinstance(value, str | tuple):
                    raise self._refuse(node)
                return -value if isinstance(sign, ast.USub) else value
            case ast.BinOp():
                return self._chain(node)
            case ast.List(elts=elements) | ast.Tuple(elts=elements):
                return tuple(self.read(element) for element in elements)
            case ast.Name(id="auto" as word):  # a shell takes the quotes from gamma="auto"
                return word
            case ast.Name(id=name):
                return self._make(self._class(name), [], {})
            case ast.Call(func=ast.Name(id=name)):
                return self._make(self._class(name), *self._read_arguments(node))
            case ast.Call(func=ast.Attribute(value=inner, attr="on")):
                args, named = self._read_arguments(node)
                if not isinstance(kernel := self.read(inner), Kernel) or len(args) != 1 or set(named) - {"at"}:
                    raise self._refuse(node)
                made = kernel.on(args[0])
                return transforms.Selection(kernel, args[0], named["at"]) if named else made
        raise self._refuse(node)

    def _read_arguments(self, node: ast.Call) -> tuple[list[Any], dict[str, Any]]:
        named = {word.arg: self.read(word.value) for word in node.keywords if word.arg is not None}
        if len(named) < len(node.keywords):
            raise self._refuse(node)
        return [self.read(arg) for arg in node.args], named

    def _chain(self, node: ast.expr) -> Any:
        """a + b + c + ... from the left, in a loop: a long sum must not meet the recursion limit."""
        steps: list[ast.BinOp] = []
        while isinstance(node, ast.BinOp):
            steps.append(node)
            node = node.left
        value = self.read(node)
        for step in reversed(steps):
            other = self.read(step.right)
            if isinstance(value, str | tuple) or isinstance(other, str | tuple):
                raise self._refuse(step)
            both_numbers = is_number(value) and is_number(other)
            if isinstance(step.op, ast.Mult):
                value = value * other
            elif isinstance(step.op, ast.Add) and not both_numbers:
                value = value + other
            elif isinstance(step.op, ast.Sub) and not both_numbers:
                value = value - other if isinstance(value, Kernel) else -other
            else:
                raise self._refuse(step)
        return value

    def _class(self, name: str) -> type[Kernel]:
        cls = _CLASSES.get(name.lower()) or registered_class(name)
        if cls is not None and issubclass(cls, Kernel):
            return cls
        if name.lower() in LEAF_OF_KERNEL:
            own, leaf, module = LEAF_OF_KERNEL[name.lower()]
            found: type[Kernel] = getattr(load_leaf(leaf, module, f"The kernel {own}"), own)
            return found
        known = [cls.__name__ for cls in dict.fromkeys(_CLASSES.values())] + [
            own for own, *_ in LEAF_OF_KERNEL.values()
        ]
        close = nearest_name(name.lower(), kernel_names())
        hint = close if "mean" in close else nearest_name(name, known)
        advice = "" if "mean" in hint else " A class of your own is registered first: --import MODULE."
        if known_as := _OF_SCIKIT_LEARN.get(name.lower()) or explain_name(name):
            hint, advice = f" {known_as.strip()}", ""
        raise UnregisteredError(f"There is no kernel {_short(name)} (in {_short(self._text)}).{hint}{advice}")

    def _make(self, cls: type[Kernel], args: list[Any], named: dict[str, Any]) -> Kernel:
        try:
            return cls(*args, **named)
        except TypeError:
            raise refuse_arguments(cls, args, named) from None

    def _refuse(self, node: ast.AST) -> RecipeError:
        part = _short(ast.unparse(node))
        return RecipeError(
            f"The kernel {_short(self._text)} holds {part}; names of kernels, numbers, words in quotes, "
            f"lists of these, +, *, .on(columns), parentheses and parameters are allowed. {_EXAMPLE}"
        )
