"""Every kind of vector registers computes the same bits, and its code is made of its own fused instructions."""

import hashlib
import json
import re
import subprocess
import sys
from types import SimpleNamespace

import numba
import numpy as np
import pytest
from llvmlite import binding

from dkernel.features import FourierMap, NystromMap
from dkernel.kernels import Gaussian
from dkernel.numerics.fused import gradient, instructions, processor, products, scores, wide_scores
from dkernel.numerics.loops import FLAGS, called
from tests.processes import environment

KINDS = {"AVX-512": processor.AVX512, "AVX2": processor.AVX2, "NEON": processor.NEON}
MACHINES = {
    "AVX-512": ("x86_64-unknown-linux-gnu", "skylake-avx512", r"vfmadd\w+p[sd].*zmm"),
    "AVX2": ("x86_64-unknown-linux-gnu", "haswell", r"vfmadd\w+p[sd].*ymm"),
    "NEON": ("aarch64-unknown-linux-gnu", "generic", r"fmla\tv\d+\.(4s|2d)"),
}


def gradients(tile, R, part):
    """The sums of four heads together, and those of a fifth."""
    for j in range(tile.shape[0]):
        for layer in range(tile.shape[1]):
            instructions.several_gradients(tile, R, part, tile.shape[2], j, layer, 0)
            instructions.single_gradient(tile, R, part, tile.shape[2], j, layer, 4)


SIGNATURES = {
    "products": products._PRODUCT_SIGNATURE,
    "scores": scores._SCORE_SIGNATURE,
    "wide scores": wide_scores.WALKS["exponential"]._signature,
    "gradients": "void(float32[:, :, :, ::1], float32[:, ::1], float32[:, :, :, ::1])",
}


@pytest.fixture(scope="module")
def loops():
    """Kind of processor, name -> the loop compiled with vectors of that kind; they run here, whatever "here" is."""
    sources = {
        "products": called(products.product_walks["sincos"]._source, products.product_walks["sincos"]._parts),
        "scores": called(scores.score_walks["exp2"]._source),
        "wide scores": called(wide_scores.WALKS["exponential"]._source, wide_scores.WALKS["exponential"]._parts),
        "gradients": gradients,
    }
    made = {}
    with pytest.MonkeyPatch.context() as patch:
        for kind, registers in KINDS.items():
            patch.setattr(instructions, "registers", lambda registers=registers: registers)
            for name, source in sources.items():
                loop = numba.njit(SIGNATURES[name], fastmath=FLAGS, nogil=True, error_model="numpy")
                made[kind, name] = loop(source)
    return made


def results(loops, kind):
    """What the loops of a kind compute from the same numbers."""
    rng = np.random.default_rng(0)
    rows, block = (rng.normal(size=size).astype(np.float32) for size in ((12, 7), (7, 128)))
    panels = np.ascontiguousarray(block.reshape(7, 2, 64).transpose(1, 0, 2))
    pairs = np.empty((2, 12, 128), np.float32)
    loops[kind, "products"](rows, panels, pairs)
    coef = rng.normal(size=(5, 2, 1, 64)).astype(np.float32)
    tile, sums, S = np.empty((1, 4, 64), np.float32), np.empty((8, 5, 16), np.float32), np.zeros((12, 5), np.float32)
    loops[kind, "scores"](rows, panels, coef, tile, sums, sums.reshape(-1), S)
    doubles, wide = [rows.astype(float), panels.astype(float), coef.astype(float)], np.zeros((12, 5))
    doubles[0][:, 0], doubles[1][:, 0] = 90.0, 90.0  # squares of near rows, which are taken again
    sums = np.empty((8, 5, 16))
    loops[kind, "wide scores"](*doubles, sums, sums.reshape(-1), wide)
    part = np.zeros((5, 1, 2, 64), np.float32)
    tiles = np.ascontiguousarray(pairs[:, :, :64])[None]
    loops[kind, "gradients"](tiles, S, part)
    return pairs, S, part, wide


@pytest.mark.parametrize("kind", ["AVX2", "NEON"])
def test_the_bits_are_those_of_avx512(loops, kind):
    for found, wanted in zip(results(loops, kind), results(loops, "AVX-512"), strict=True):
        assert np.isfinite(found).all()
        assert found.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("name", SIGNATURES)
@pytest.mark.parametrize("kind", MACHINES)
def test_the_code_is_made_of_fused_instructions(loops, kind, name):
    """Cross-compiled: no such processor is needed here."""
    triple, cpu, instruction = MACHINES[kind]
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    machine = binding.Target.from_triple(triple).create_target_machine(cpu=cpu, opt=3)
    loop = loops[kind, name]
    text = loop.inspect_llvm(loop.signatures[0])
    text = re.sub(r'^target (triple|datalayout) = ".*"$', "", text, flags=re.MULTILINE)
    # numba counts the references to an array, which are none of the walk's, by an instruction of this processor.
    text = re.sub(r"(tail )?call i8 @llvm\.x86\.atomic\S+\(.*?\)", "add i8 0, 0", text)
    module = binding.parse_assembly(text)
    module.triple, module.data_layout = triple, str(machine.target_data)
    code = machine.emit_assembly(module)
    assert re.search(instruction, code)
    assert "fmaf" not in code  # a call for each number


@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_groups_are_all_vectors_of_a_panel_and_fit_into_the_registers(kind, rows):
    registers = KINDS[kind]
    groups = registers.groups(64, rows)
    assert [part for group in groups for part in group] == list(range(64 // registers.lanes))
    assert all(len(group) * (rows + 1) < registers.count for group in groups)


@pytest.mark.parametrize(
    ("host", "told", "found"),
    [
        ("+sse2,+avx2,+fma,+avx512f", None, processor.AVX512),
        ("+sse2,+avx2,+fma,-avx512f", None, processor.AVX2),
        ("+sse2,+avx2,-fma", None, None),
        ("", None, None),
        ("+avx2,+fma,+avx512f", "+avx2,+fma", processor.AVX2),
        ("+avx2,+fma,+avx512f", "", None),
    ],
)
def test_registers_are_those_that_loops_are_compiled_for(monkeypatch, host, told, found):
    monkeypatch.setattr(binding, "get_process_triple", lambda: "x86_64-unknown-linux-gnu")
    monkeypatch.setattr(binding, "get_host_cpu_features", lambda: SimpleNamespace(flatten=lambda: host))
    if told is None:
        monkeypatch.delenv("NUMBA_CPU_FEATURES", raising=False)
    else:
        monkeypatch.setenv("NUMBA_CPU_FEATURES", told)
    assert processor.registers.__wrapped__() == found


@pytest.mark.parametrize("triple", ["aarch64-unknown-linux-gnu", "arm64-apple-darwin23.1.0"])
def test_every_arm_of_64_bits_has_registers(monkeypatch, triple):
    monkeypatch.setattr(binding, "get_process_triple", lambda: triple)
    assert processor.registers.__wrapped__() == processor.NEON


def digests():
    """Sums of gradients and scores of maps, as JSON."""
    rng, made = np.random.default_rng(0), {}
    X, Y = rng.normal(size=(601, 9)).astype(np.float32), np.sign(rng.normal(size=(601, 1))).astype(np.float32)
    kernel = Gaussian(gamma=0.1)
    maps = {"fourier": FourierMap.draw(kernel, 9, 300, 0), "nystrom": NystromMap(kernel, X[:300])}
    for name, map in maps.items():
        coef, shift = rng.normal(size=(300, 6)).astype(np.float32), rng.normal(size=6).astype(np.float32)
        G, g, S = gradient.fused_gradient(map.panels, map.rows(X), coef, shift, Y, None, ("logistic", 0.0))
        alone = scores.fused_scores(map.panels, map.rows, X, coef, shift)
        wide = map.wide_scores(X, coef.astype(np.float64), lambda rows: rows.astype(np.float64))
        made[name] = [hashlib.sha256(array.tobytes()).hexdigest() for array in (G, g, S, alone, wide)]
    return json.dumps(made)


AVX2_MACHINE = {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": "+avx2,+fma"}


@pytest.mark.slow
@pytest.mark.skipif(processor.registers() is not processor.AVX512, reason="two kinds are compared where both run")
def test_a_process_of_avx2_computes_the_same_bits(tmp_path):
    here = environment(NUMBA_CACHE_DIR=str(tmp_path), **AVX2_MACHINE)
    command = "from tests.numerics.fused import test_processor as t; print(t.processor.registers().lanes, t.digests())"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", command],
        env=here, check=True, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    lanes, found = done.stdout.split(maxsplit=1)
    assert int(lanes) == 8
    assert json.loads(found) == json.loads(digests())
