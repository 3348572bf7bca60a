"""Machine code of loops: made by numba once, kept on disk, and called without numba from then on.

numba takes a third of a second to import, and as long to prepare its compiler; a process whose loops are on disk needs
neither. The code is that which numba makes of a loop alone: no object of Python, no error, nothing of numba's runtime.
Where a loop is more than that, or the folder cannot be written, numba itself calls it.
"""

import ctypes
import fcntl
import hashlib
import os
import re
import stat
import struct
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from llvmlite import binding

SYMBOL = "dkernel_loop"
BROUGHT = Path(__file__).parent / "brought"  # loops that came with the installation: `python -m dkernel.numerics.bring`
_AVX2 = "+64bit,+avx,+avx2,+bmi,+bmi2,+cmov,+crc32,+cx16,+cx8,+f16c,+fma,+fxsr,+lzcnt,+mmx,+movbe,+popcnt,+sahf,+sse"
_AVX2 += ",+sse2,+sse3,+sse4.1,+sse4.2,+ssse3,+xsave"
LEVELS = {
    "x86-64-v4": f"{_AVX2},+avx512bw,+avx512cd,+avx512dq,+avx512f,+avx512vl,-prefer-256-bit",
    "x86-64-v3": _AVX2,
}
"""Level of processors, the best first -> its features. A loop of a level has the bits of the processor's own."""
_REFERENCES = "NRT_MemInfo_call_dtor"  # of arrays that numba has made itself: a loop makes none
_WORDS_OF_NUMBERS = {
    "int64": ("i64", "q"),
    "uint32": ("i32", "I4x"),
    "float32": ("float", "f4x"),
    "float64": ("double", "d"),
}
_FIRST_BYTE = ctypes.c_char * 0  # begins where an array does, which may be empty
_lock = threading.Lock()  # LLVM's compiler is one of the process


def processor_name() -> str:
    """The name of the processor that loops are compiled for: this one, or the one that numba is told."""
    return os.environ.get("NUMBA_CPU_NAME") or str(binding.get_host_cpu_name())


def processor_features() -> str:
    """Its features, as LLVM writes them."""
    given = os.environ.get("NUMBA_CPU_FEATURES")
    if given is not None:
        return given
    with suppress(RuntimeError):  # LLVM knows none here
        return str(binding.get_host_cpu_features().flatten())
    return ""


def loop_folder() -> str:
    """The folder of the compiled loops: beside the code, in the home or for temporary files; "" for none."""
    given = os.environ.get("NUMBA_CACHE_DIR")
    if given:
        with suppress(OSError):
            os.makedirs(given, exist_ok=True)
        return given if os.access(given, os.W_OK) else ""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path("~", ".cache").expanduser(), "dkernel")
    for folder in (Path(__file__).parent / "__pycache__", home):
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            if os.access(folder, os.W_OK):
                return str(folder)
    return _temporary_folder()


def _temporary_folder() -> str:
    """A folder that this user alone can write, since what it holds is run; "" where there is none."""
    path = Path(tempfile.gettempdir()) / f"dkernel-loops-{os.getuid()}"
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        status = path.lstat()
    except OSError:
        return ""
    is_private = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077
    return str(path) if is_private else ""


class LoopFile:
    """The machine code of one loop on disk, behind its own digest.

    Parameters
    ----------
    source : file that defines the loop
    name : of the loop
    signature, flags : as numba takes them
    """

    def __init__(self, source: str, name: str, signature: str, flags: set[str]) -> None:
        known, text = f"{Path(source).stem} {name} {signature} {sorted(flags)} ", Path(source).read_bytes()

        def path(folder: Path | str, processor: str, features: str) -> Path:
            key = hashlib.sha256(f"{known}{_surroundings(processor, features)}".encode() + text).hexdigest()[:32]
            return Path(folder, f"{Path(source).stem}.{name}-{key}.o")

        folder, here = loop_folder(), (processor_name(), processor_features())
        self.path = path(folder, *here) if folder else None
        self._brought = [path(BROUGHT, *level) for level in _levels()]

    def read(self) -> bytes | None:
        """The code; None where there is none, or it is damaged."""
        for path in [*self._brought, *([self.path] if self.path else [])]:
            with suppress(OSError):
                digest, code = (content := path.read_bytes())[:32], content[32:]
                if code and hashlib.sha256(code).digest() == digest:
                    return code
        return None

    @contextmanager
    def alone(self) -> Iterator[None]:
        """While no other process of this machine makes the code: who waited finds it on disk."""
        if self.path is None:
            yield
            return
        lock = self.path.with_suffix(".lock")
        with ExitStack() as stack:
            with suppress(OSError):  # a folder without locks
                file = stack.enter_context(open(lock, "wb"))
                ends = time.monotonic() + 60  # a process that stands still is waited for no longer
                while time.monotonic() < ends and not _is_locked(file):
                    time.sleep(0.01)
            yield
            with suppress(OSError):
                lock.unlink(missing_ok=True)

    def write(self, code: bytes) -> None:
        """Keep the code, whole or not at all."""
        if self.path is None:
            return
        part = self.path.with_suffix(f".{uuid.uuid4().hex}")
        with suppress(OSError):
            try:
                with open(part, "xb") as file:
                    file.write(hashlib.sha256(code).digest() + code)
                part.replace(self.path)
            finally:
                part.unlink(missing_ok=True)


def _is_locked(file: Any) -> bool:
    """True if the file is locked for this process now."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@cache
def _levels() -> list[tuple[str, str]]:
    """The best level of this processor that loops were brought for, with its features."""
    has = {*processor_features().split(",")}
    fit = [
        (name, features) for name, features in LEVELS.items() if has >= {f for f in features.split(",") if f[0] == "+"}
    ]
    return fit[:1] if BROUGHT.is_dir() else []


@cache
def _surroundings(processor: str, features: str) -> str:
    """All that decides the code beside a loop's own file: what it calls, the compiler, the processor, its settings."""
    here = sorted(Path(__file__).parent.rglob("*.py"))
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in here)).hexdigest()
    settings = {name: value for name, value in os.environ.items() if name.startswith("NUMBA_")}
    for name in ("NUMBA_CACHE_DIR", "NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES"):
        settings.pop(name, None)
    return f"{digest} {version('numba')} {binding.llvm_version_info} {processor} {features} {settings}"


def emit(text: str, signature: str) -> bytes | None:
    """Machine code of numba's module of one loop; None where it is not a function of arrays and numbers alone."""
    _prepare()
    module = binding.parse_assembly(text)
    [loop] = [f for f in module.functions if not f.is_declaration and f.linkage == binding.Linkage.external]
    called = {f.name for f in module.functions if f.is_declaration and not f.name.startswith("llvm.")}
    taken = ["ptr", "ptr", *(word for kind in _kinds(signature) for word in kind.words)]
    if [str(argument.type) for argument in loop.arguments] != taken or not called <= {_REFERENCES}:
        return None
    loop.name = "loop"
    if called:
        module.link_in(binding.parse_assembly(f"define void @{_REFERENCES}(ptr %0) {{ ret void }}"))
    module.link_in(binding.parse_assembly(_entry(taken)))
    for function in module.functions:
        if not function.is_declaration and function.name != SYMBOL:
            function.linkage = binding.Linkage.internal
    return bytes(_machine().emit_object(module))


def _entry(taken: Sequence[str]) -> str:
    """A function of one pointer, to a word of 8 bytes for each argument of the loop behind its two places for results.

    A loop returns nothing and raises nothing, but clears the first place.
    """
    words = [
        f"%p{i} = getelementptr i64, ptr %words, i64 {i} %w{i} = load {kind}, ptr %p{i}"
        for i, kind in enumerate(taken[2:])
    ]
    passed = ", ".join(["ptr %room", "ptr %room", *(f"{kind} %w{i}" for i, kind in enumerate(taken[2:]))])
    return f"""
        declare i32 @loop({", ".join(taken)})
        define i32 @{SYMBOL}(ptr %words) {{
          %room = alloca i64
          {" ".join(words)}
          %status = call i32 @loop({passed})
          ret i32 %status
        }}"""


def load_loop(code: bytes, signature: str) -> Callable[..., None]:
    """The loop of some machine code, which takes what its signature says.

    The engine lives as long as the process: nothing tells when the last call has returned.
    """
    with _lock:
        _prepare()
        engine = binding.create_mcjit_compiler(binding.parse_assembly(""), _machine())
        engine.add_object_file(binding.ObjectFileRef.from_data(code))
        engine.finalize_object()
        _engines.append(engine)
        return _caller(engine.get_function_address(SYMBOL), signature)


_engines: list[Any] = []


@cache
def _prepare() -> None:
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()


@cache
def _machine() -> Any:
    triple = binding.get_process_triple()
    reloc = "static" if triple.startswith("x86") else "default"  # as numba has it
    return binding.Target.from_triple(triple).create_target_machine(
        cpu=processor_name(), features=processor_features(), opt=3, reloc=reloc, jit=True
    )


@dataclass(frozen=True)
class LoopArgument:
    """What a loop takes in one place: an array, which numba passes as seven words and more, or a number.

    An array is (owner, parent, size, item size, data), its shape and its strides.
    """

    name: str
    dimensions: int
    contiguous: bool

    @property
    def words(self) -> list[str]:
        """Types of the words, as LLVM has them."""
        if self.dimensions:
            return ["ptr", "ptr", "i64", "i64", "ptr"] + ["i64"] * (2 * self.dimensions)
        return [_WORDS_OF_NUMBERS[self.name][0]]

    @property
    def layout(self) -> str:
        """The words in 8 bytes each, as `struct` has them."""
        return f"{5 + 2 * self.dimensions}q" if self.dimensions else _WORDS_OF_NUMBERS[self.name][1]


def _kinds(signature: str) -> list[LoopArgument]:
    """What a loop of the signature `void(...)` takes; of a tuple what is in it, one after the other.

    Examples
    --------
    >>> _kinds("void(float32[:, ::1])")
    [LoopArgument(name='float32', dimensions=2, contiguous=True)]
    >>> [kind.name for kind in _kinds("void(int64, Tuple((float32, int8)))")]
    ['int64', 'float32', 'int8']
    """
    arguments = re.findall(r"(\w+)(\[[^]]*\])?", signature.removeprefix("void").replace("Tuple", ""))
    return [
        LoopArgument(name, len(sizes.split(",")) if sizes else 0, sizes.endswith("::1]")) for name, sizes in arguments
    ]


def _caller(address: int, signature: str) -> Callable[..., None]:
    """A function of numpy arrays, numbers and tuples of both that calls the loop."""
    kinds = [(np.dtype(kind.name), kind.dimensions, kind.contiguous) for kind in _kinds(signature)]
    pack = struct.Struct("=" + "".join(kind.layout for kind in _kinds(signature))).pack
    loop: Any = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p)(address)

    def call(*args: Any) -> None:
        words: list[Any] = []
        values = [part for value in args for part in (value if isinstance(value, tuple) else (value,))]
        for (dtype, dimensions, contiguous), value in zip(kinds, values, strict=True):
            if not dimensions:
                words.append(value)
                continue
            # Arrays that came from another process may be read-only, and begin at any byte: loops read them too.
            flags = value.flags
            if value.dtype != dtype or value.ndim != dimensions or (contiguous and not flags.c_contiguous):
                raise TypeError(f"A loop takes {signature}, but got {value.dtype} of shape {value.shape}.")
            quick = flags.carray and value.size > 0
            data = ctypes.addressof(_FIRST_BYTE.from_buffer(value)) if quick else value.ctypes.data
            words += (0, 0, value.size, value.itemsize, data, *value.shape, *value.strides)
        loop(pack(*words))

    return call
