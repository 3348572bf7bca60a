"""Loops are compiled once, kept on disk whole, and called without numba."""

import os
import subprocess
import sys
import tempfile
import threading

import numba
import numpy as np
import pytest

from dkernel.numerics import loops, machine_code, tiling
from tests.processes import environment


def doubled(x):
    for i in range(x.size):
        x[i] *= 2


def mixed(X, wide, count, number, small, out):
    """Each kind of argument: a view, an array of three dimensions, numbers of three types."""
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            out[i, j] = X[i, j] + wide[0, i, j] * count + number + small


def powers(x):
    for i in range(x.size):
        x[i] = math_exp(x[i])


@loops.inner()
def math_exp(value):
    return np.exp(value)


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    return tmp_path


MIXED = "void(float32[:, :], float64[:, :, ::1], int64, float32, uint32, float64[:, ::1])"


def test_a_loop_takes_views_and_numbers_as_the_function_does(folder):
    X, wide = np.arange(24, dtype=np.float32).reshape(4, 6)[::2, 1::2], np.arange(6.0).reshape(1, 2, 3)
    found, wanted = np.zeros((2, 3)), np.zeros((2, 3))
    loops.compile_loop(MIXED)(mixed)(X, wide, -3, 0.5, 2**32 - 1, found)
    mixed(X, wide, -3, 0.5, 2**32 - 1, wanted)
    assert found.tolist() == wanted.tolist()
    assert [path.suffix for path in folder.iterdir()] == [".o"]


def scaled(loss, work):
    factor, number = loss
    x, out = work
    for i in range(x.size):
        out[i] = factor * x[i] + number


@pytest.mark.parametrize(
    "x",
    [
        np.ones(3),
        np.ones((3, 1), np.float32),
        np.ones(6, np.float32)[::2],
        np.ones(3, ">f4"),
    ],
)
def test_a_loop_refuses_what_its_signature_does_not_say(x):
    with pytest.raises(TypeError, match=r"A loop takes void\(float32\[::1\]\), but got"):
        loops.compile_loop("void(float32[::1])")(doubled)(x)


def test_a_loop_reads_what_came_from_another_process():
    bytes_ = b"\0" + np.arange(5, dtype=np.float32).tobytes()
    x, found = np.frombuffer(bytes_, np.float32, offset=1), np.zeros(5)
    assert not x.flags.aligned
    assert not x.flags.writeable
    loops.compile_loop("void(Tuple((int64, float32)), Tuple((float32[::1], float64[::1])))")(scaled)(
        (2, 0.5), (x, found)
    )
    assert found.tolist() == [0.5, 2.5, 4.5, 6.5, 8.5]


@pytest.mark.parametrize("size", [0, 1, 1000])
def test_code_from_disk_has_the_bits_of_numba(size):
    x = np.linspace(-3, 3, size, dtype=np.float32)
    kept, other = x.copy(), x.copy()
    loop = loops.compile_loop("void(float32[::1])")(powers)
    loop(kept)
    loop.compile()(other)
    assert kept.tobytes() == other.tobytes()


def test_a_damaged_file_is_compiled_again(folder):
    loops.compile_loop("void(float32[::1])")(doubled).load()
    [path] = folder.iterdir()
    code = path.read_bytes()
    for damaged in (b"", code[:40], code[:-1] + bytes([code[-1] ^ 1])):
        path.write_bytes(damaged)
        x = np.ones(3, np.float32)
        loops.compile_loop("void(float32[::1])")(doubled)(x)
        assert x.tolist() == [2.0, 2.0, 2.0]
        assert path.read_bytes()[32:]
        assert path.read_bytes() != damaged


def test_another_processor_and_setting_have_files_of_their_own(monkeypatch):
    names = set()
    for setting in ({}, {"NUMBA_CPU_NAME": "haswell"}, {"NUMBA_OPT": "2"}):
        with monkeypatch.context() as patch:
            for name, value in setting.items():
                patch.setenv(name, value)
            machine_code._surroundings.cache_clear()
            names.add(machine_code.LoopFile(__file__, "doubled", "void(float32[::1])", set()).path)
    machine_code._surroundings.cache_clear()
    assert len(names) == 3


def test_numba_calls_a_loop_that_is_more_than_machine_code(folder, monkeypatch):
    monkeypatch.setattr(machine_code, "emit", lambda *_: None)
    monkeypatch.setattr(loops, "emit", lambda *_: None)
    x = np.ones(3, np.float32)
    loops.compile_loop("void(float32[::1])")(doubled)(x)
    assert x.tolist() == [2.0, 2.0, 2.0]
    assert not list(folder.iterdir())


def test_loops_are_compiled_where_numba_is_told_to_compile_nothing(monkeypatch):
    monkeypatch.setattr(numba.config, "DISABLE_JIT", 1)
    x = np.zeros(3, np.float32)
    loops.compile_loop("void(float32[::1])")(tiling._exp2._source)(x)
    assert x.tolist() == [1.0, 1.0, 1.0]
    assert numba.config.DISABLE_JIT == 1


@pytest.mark.parametrize(("others", "kept"), [(0o700, True), (0o777, False)])
def test_loops_are_kept_in_temporary_files_where_nothing_else_works(monkeypatch, tmp_path, others, kept):
    """Neither the code nor the home can be written; and a folder that others can write is not trusted."""
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr(os, "access", lambda *_: False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = tmp_path / f"dkernel-loops-{os.getuid()}"
    folder.mkdir()
    folder.chmod(others)
    for _ in range(2):
        x = np.ones(3, np.float32)
        loops.compile_loop("void(float32[::1])")(doubled)(x)
        assert x.tolist() == [2.0, 2.0, 2.0]
    assert bool(list(folder.glob("*.o"))) is kept


def test_a_second_process_loads_no_numba(tmp_path):
    code = "import sys, numpy as np; from dkernel.numerics import tiling; tiling.exp2_inplace(np.zeros(1, np.float32))"
    found = [
        subprocess.run(
            [sys.executable, "-c", f"{code}; print('numba' in sys.modules)"],
            check=True,
            capture_output=True,
            env=environment(NUMBA_CACHE_DIR=str(tmp_path)),
            text=True,
        ).stdout.strip()
        for _ in range(2)
    ]
    assert found == ["True", "False"]


@pytest.mark.parametrize(("level", "processor"), [("x86-64-v3", "znver3"), ("x86-64-v4", "skylake-avx512")])
def test_loops_that_are_brought_are_not_compiled_and_have_the_same_bits(level, processor, tmp_path):
    features = machine_code.LEVELS[level]
    if not {f for f in features.split(",") if f[0] == "+"} <= {*machine_code.processor_features().split(",")}:
        pytest.skip(f"this processor has not the features of {level}")
    code = """if True:
        import pathlib, sys, numpy as np
        from dkernel.numerics import machine_code, tiling
        machine_code.BROUGHT = pathlib.Path(sys.argv[1])
        x = np.linspace(-90, 90, 10_000, dtype=np.float32)
        tiling.exp2_inplace(x)
        print(hash(x.tobytes()), "numba" in sys.modules)
    """

    def run(name, brought, cache):
        told = {"NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": features, "NUMBA_CACHE_DIR": str(cache)}
        env = environment(PYTHONHASHSEED="0", **told)
        return subprocess.check_output([sys.executable, "-c", code, str(brought)], env=env, text=True).split()

    bits, compiled = run(processor, tmp_path / "none", tmp_path / "own")
    assert compiled == "True"
    assert run(level, tmp_path / "none", tmp_path / "brought") == [bits, "True"]
    assert run(processor, tmp_path / "brought", tmp_path / "empty") == [bits, "False"]
    assert not any((tmp_path / "empty").iterdir())


def test_processes_of_one_machine_compile_a_loop_once(tmp_path):
    """Three begin at one time: one compiles, the others wait for its file."""
    code = """if True:
        import sys, time, numpy as np
        from dkernel.numerics import loops, tiling
        emit, made = loops.CompiledLoop._emit, []
        loops.CompiledLoop._emit = lambda loop: made.append(loop) or emit(loop)
        print("ready", flush=True)
        sys.stdin.readline()
        tiling.exp2_inplace(np.zeros(1, np.float32))
        print(len(made))
    """
    made = {"args": [sys.executable, "-c", code], "env": environment(NUMBA_CACHE_DIR=str(tmp_path)), "text": True}
    processes = [subprocess.Popen(stdin=subprocess.PIPE, stdout=subprocess.PIPE, **made) for _ in range(3)]
    assert [process.stdout.readline().strip() for process in processes] == ["ready"] * 3
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    compiled = [int(process.communicate()[0]) for process in processes]
    assert sum(compiled) == len(list(tmp_path.glob("*.o"))) > 0
    assert {path.suffix for path in tmp_path.iterdir()} == {".o"}


def test_loops_are_loaded_in_a_thread_and_are_the_callers_own_afterwards():
    loop, other = (loops.compile_loop("void(float32[::1])")(doubled) for _ in range(2))
    before = set(threading.enumerate())
    loops.load_beside([loop, other])
    for thread in set(threading.enumerate()) - before:
        thread.join()
    assert loop.load() is loop.load()
    x = np.ones(3, np.float32)
    loop(x)
    other(x)
    assert x.tolist() == [4.0, 4.0, 4.0]
