"""What goes into a checkpoint's file comes back with the same bits, layout and identities, and as nothing else."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from dkernel.errors import DKernelError
from dkernel.features import FourierMap, NystromMap, Scaling
from dkernel.kernels import Gaussian, Laplacian
from dkernel.model.recipe import Recipe
from dkernel.model.serialization import CODECS, decode_value, encode_value
from dkernel.solvers.preconditioner import Preconditioner
from dkernel.solvers.sgd_round import SGDState
from dkernel.streaming.survey import ColumnMoments, Reservoir


def again(value):
    """Written as JSON and bytes, and read."""
    tree, arrays = encode_value(value)
    stored = {name: np.frombuffer(bytearray(a.tobytes()), a.dtype).reshape(a.shape) for name, a in arrays.items()}
    return decode_value(json.loads(json.dumps(tree, allow_nan=False, sort_keys=True)), stored)


PLAIN = [None, True, 3, -2.5, 0.1, "text", "", [], [1, [2.0]], (), (1, ("a", None)), {}, {2: "a", "b": 2.5, True: ()}]


@pytest.mark.parametrize("value", PLAIN, ids=repr)
def test_plain_values(value):
    found = again(value)
    assert found == value
    assert type(found) is type(value)
    if isinstance(value, dict):
        assert [type(name) for name in found] == [type(name) for name in value]


def test_floats_that_json_has_no_word_for():
    assert again([math.inf, -math.inf]) == [math.inf, -math.inf]
    assert math.isnan(again(math.nan))
    assert again(np.float64(0.1)) == 0.1


ARRAYS = [
    np.arange(6.0).reshape(2, 3),
    np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    np.array([1.0, math.nan, -math.inf]),
    np.asfortranarray([[math.inf, 1.0], [2.0, 3.0], [4.0, 5.0]]).astype(np.float32, order="K"),
    np.array([2**64 - 1], np.uint64),
    np.array([True, False]),
    np.array(["a", "longer", ""]),
    np.zeros((0, 4), np.float32),
    np.zeros(0, "U3"),
    np.array([["ab", 1.5], [("c", 2), -0.0]], object),
    np.zeros((0, 2), object),
]


@pytest.mark.parametrize("array", ARRAYS, ids=lambda a: f"{a.dtype}-{a.shape}")
def test_arrays_keep_bits_and_layout(array):
    found = again(array)
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    assert found.flags.c_contiguous == array.flags.c_contiguous
    assert found.flags.f_contiguous == array.flags.f_contiguous
    assert found.tolist() == array.tolist() if array.dtype.kind in "UO" else found.tobytes() == array.tobytes()


def test_an_array_with_holes_is_refused():
    with pytest.raises(TypeError, match="another layout"):
        encode_value(np.zeros((4, 4))[:, ::2])


def test_what_was_one_object_is_one_object():
    P = Preconditioner(1e-3, np.asfortranarray(np.tri(3)), 2.0, 3.0)
    tree, arrays = encode_value([P, P, Preconditioner(1e-4, np.eye(3), 1.0, 1.0)])
    first, second, third = again([P, P, Preconditioner(1e-4, np.eye(3), 1.0, 1.0)])
    assert first is second
    assert third is not first
    assert len(arrays) == 2
    assert tree[1] == {"again": 0}
    moments = ColumnMoments(3, np.zeros(2), np.ones(2))
    outer = again(Reservoir(np.zeros((2, 1)), moments, {0: moments}, np.zeros(2, np.uint64)))
    assert outer.weight[0] is outer.y
    gradient = np.random.default_rng(0).standard_normal((3, 2))
    assert first.solve(gradient).tobytes() == P.solve(gradient).tobytes()


def test_values_of_a_fit():
    state = again(SGDState(np.ones((3, 2)), {"average": np.zeros((3, 2)), "tail": np.full((3, 2), 2.0)}, 7))
    assert state.done == 7
    assert list(state.sums) == ["average", "tail"]
    assert state.moved is None
    np.testing.assert_array_equal(again(replace(state, moved=np.eye(3, 2))).moved, np.eye(3, 2))
    recipe = Recipe(solver="psgd", class_weight={"a": 2.0, "b": 1.0}, gamma=0.1)
    assert again(recipe) == recipe
    kernel = 0.5 * Gaussian(gamma=0.1) + Laplacian(gamma="auto")
    assert repr(again(kernel)) == repr(kernel)
    scaling = again(Scaling("standard", np.zeros(2), np.ones(2)))
    assert scaling.kind == "standard"
    X = np.random.default_rng(1).standard_normal((5, 2)).astype(np.float32)
    for map in (NystromMap(Gaussian(gamma=0.3), X), FourierMap.draw(Gaussian(gamma=0.3), 2, 8, 0, "iid")):
        np.testing.assert_array_equal(again(map).components(X), map.components(X))


class Foreign:
    """Of no kind that a checkpoint knows."""


def test_nothing_but_the_kinds():
    with pytest.raises(TypeError, match="no place for a Foreign"):
        encode_value(Foreign())
    with pytest.raises(DKernelError, match=r"'os\.system' is unknown"):
        decode_value({"value": 0, "kind": "os.system", "of": [["command", "true"]]}, {})
    assert all(kind.of.__module__.startswith("dkernel.") for kind in CODECS.values())
