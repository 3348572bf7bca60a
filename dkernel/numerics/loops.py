"""Loops that are compiled for this processor when they are first called, and kept on disk.

A loop is a function of arrays, numbers and tuples of both with one signature. The functions that it calls are `inner`
ones, or an `instruction` of `fused.instructions`. Nothing here imports numba before a loop has to be compiled.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial, update_wrapper
from importlib import import_module
from types import FunctionType
from typing import Any

from dkernel.numerics.machine_code import LoopFile, emit, load_loop

FLAGS = {"contract", "nnan", "ninf", "nsz", "arcp"}
_compiler = threading.RLock()  # numba's compiler is one of the process
every: list["CompiledLoop"] = []
"""All loops of the modules that are imported."""


class CompiledLoop:
    """A loop that is compiled, or read from disk, when it is first called: a process calls a few of all there are.

    Parameters
    ----------
    parts : name in the function -> what it calls by this name, in place of the part of its module
    name : tells loops of one function with different parts from each other
    """

    def __init__(
        self,
        function: Callable[..., None],
        signature: str,
        flags: set[str] = FLAGS,
        parts: "Mapping[str, LoopPart] | None" = None,
        name: str = "",
    ) -> None:
        update_wrapper(self, function)
        self._source, self._signature, self._flags, self._parts = function, signature, flags, parts or {}
        self._name = f"{name}_{function.__code__.co_name}" if name else function.__code__.co_name
        self._lock = threading.Lock()
        self._loop: Callable[..., None] | None = None
        every.append(self)

    def __call__(self, *args: Any) -> None:
        (self._loop or self.load())(*args)

    def load(self) -> Callable[..., None]:
        """Compile the loop, or read it from disk, unless that was done before."""
        with self._lock:
            if self._loop is None:
                self._loop = self._compiled()
            return self._loop

    def _compiled(self) -> Callable[..., None]:
        file = LoopFile(self._source.__code__.co_filename, self._name, self._signature, self._flags)
        code = file.read()
        if code is None:
            with file.alone():
                code = file.read()
                if code is None and (code := self._emit()) is not None:
                    file.write(code)
        if code is None:
            with _compiler:
                whole: Callable[..., None] = self.compile()
                return whole
        return load_loop(code, self._signature)

    def _emit(self) -> bytes | None:
        """Machine code of the loop; None where numba has to call it."""
        with _compiler:
            loop = self.compile(no_cpython_wrapper=True, no_cfunc_wrapper=True)
            return emit(loop.inspect_llvm(loop.signatures[0]), self._signature)

    def compile(self, **options: bool) -> Any:
        """The loop as numba compiles it."""
        return _njit(called(self._source, self._parts), self._flags, self._signature, **options)


def compile_loop(signature: str, flags: set[str] = FLAGS) -> Callable[[Callable[..., None]], CompiledLoop]:
    """A `CompiledLoop` of a function."""
    return partial(CompiledLoop, signature=signature, flags=flags)


def load_beside(loops: Sequence[CompiledLoop]) -> None:
    """Load loops one after the other in a thread, while the caller does other work; the process may end between two."""

    def load() -> None:
        for loop in loops:
            if threading.main_thread().is_alive():
                loop.load()

    threading.Thread(target=load, name="dkernel-loops").start()


class LoopPart:
    """What loops alone call; numba makes it when the first of them is compiled."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    @cached_property
    def made(self) -> Any:
        return self._make()


def inner(flags: set[str] = FLAGS) -> Callable[[Callable[..., Any]], Any]:
    """A function that loops alone call: its code is a part of theirs."""
    return lambda function: LoopPart(lambda: _njit(called(function), flags))


def instruction(name: str, *arguments: str) -> Any:
    """A function of `fused.instructions`, or what it makes of some arguments."""

    def make() -> Any:
        part = getattr(import_module("dkernel.numerics.fused.instructions"), name)
        return part(*arguments) if arguments else part

    return LoopPart(make)


def called(function: Callable[..., Any], others: Mapping[str, LoopPart] | None = None) -> Callable[..., Any]:
    """The function with its parts, or others, as numba knows them."""
    assert isinstance(function, FunctionType)
    names = {*function.__code__.co_names}
    globals_used = {name: value for name, value in function.__globals__.items() if name in names} | dict(others or {})
    parts = {name: value.made for name, value in globals_used.items() if isinstance(value, LoopPart)}
    scope = {**function.__globals__, **parts}
    return FunctionType(function.__code__, scope, function.__name__, function.__defaults__, function.__closure__)


def _njit(function: Callable[..., Any], flags: set[str], *signature: str, **options: bool) -> Any:
    import numba

    njit: Any = numba.njit  # its types know less than it takes
    # Compiled under NUMBA_DISABLE_JIT too: Python cannot run the `instruction` parts.
    config: Any = numba.config
    disabled, config.DISABLE_JIT = config.DISABLE_JIT, 0
    try:
        return njit(*signature, fastmath=flags, nogil=True, error_model="numpy", **options)(function)
    finally:
        config.DISABLE_JIT = disabled
