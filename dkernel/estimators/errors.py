"""Errors of scikit-learn's checks as errors of dkernel: everything that dkernel raises is a DKernelError."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import update_wrapper
from types import MethodType
from typing import Any

import sklearn.exceptions

from dkernel.errors import DataError, DKernelError, RecipeError, UnsupportedError


class NotFittedError(DKernelError, sklearn.exceptions.NotFittedError):
    """The estimator has learned nothing yet: call fit first."""


class NotThereError(UnsupportedError, AttributeError):
    """A fitted attribute or a method that this estimator has not; the message names what does the same."""


class InputTypeError(DataError, TypeError):
    """The data are of a type that is not understood."""


@contextmanager
def refusals() -> Iterator[None]:
    """An error of scikit-learn's checks becomes a DataError with the same message.

    A RuntimeError is that of an array which numpy cannot take: one of PyData's sparse, or a tensor with a gradient.
    """
    try:
        yield
    except DKernelError:
        raise
    except (ValueError, RuntimeError) as error:
        raise DataError(str(error)) from None
    except TypeError as error:
        raise InputTypeError(str(error)) from None


def offered_if(check: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A method that is there unless `check(estimator)` refuses it: `available_if` of scikit-learn, with the reason."""
    return lambda method: _Offered(method, check)


class _Offered:
    def __init__(self, method: Callable[..., Any], check: Callable[[Any], Any]) -> None:
        self.fn, self.check = method, check
        update_wrapper(self, method)  # type: ignore[arg-type]

    def __get__(self, estimator: Any, owner: Any = None) -> Any:
        if estimator is None:
            return self.fn
        try:
            self.check(estimator)
        except DKernelError as refusal:
            raise NotThereError(str(refusal)) from refusal
        return MethodType(self.fn, estimator)


def check_callbacks(callbacks: Any) -> None:
    """Raise RecipeError, before anything is read, for a callback that is no function."""
    functions = callbacks if isinstance(callbacks, list | tuple) else (callbacks,)
    if callbacks is not None and (functions is not callbacks or not all(map(callable, functions))):
        raise RecipeError(f"callbacks={callbacks!r}: a list of functions of one dict is needed, as in [print].")


def require_fitted(estimator: Any, attribute: str) -> None:
    """Raise NotFittedError if `fit` has not set the attribute."""
    if not hasattr(estimator, attribute):
        raise NotFittedError(
            f"This {type(estimator).__name__} instance is not fitted yet: call 'fit' before using this method."
        )
