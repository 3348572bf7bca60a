"""What grids divide: centred numbers and one-hot groups as categories; and the machine that they become."""

import pickle

import numpy as np
import pytest

from dkernel.model.local.grid_machine import GridMachine, GridSettings
from dkernel.model.local.grids import Tables
from dkernel.model.local.inputs import GridInputs, one_hot_groups
from dkernel.model.local_settings import local_machine


def one_hot(codes, levels):
    return (codes[:, None] == np.arange(levels)).astype(np.float32)


def table(n=500, seed=0):
    rng = np.random.default_rng(seed)
    return np.hstack(
        [
            rng.normal(size=(n, 2)),
            one_hot(rng.integers(0, 4, n), 4),
            one_hot(rng.integers(0, 3, n), 3),
            rng.normal(size=(n, 1)),
        ]
    ).astype(np.float32)


def test_adjacent_groups_split_and_an_absent_level_splits_none():
    X = table()
    X[:, 4] = 0
    assert one_hot_groups(X) == ((2, 3, 4, 5), (6, 7, 8))


def test_scaled_levels_and_single_flags_are_groups_and_numbers_are_not():
    X = np.column_stack([np.arange(6.0), [0, 0.7, 0, 0.7, 0, 0], [0.7, 0, 0.7, 0, 0, 0], [-1, 0, -1, 0, -1, 0]])
    assert one_hot_groups(X) == ((1, 2),)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_inputs_are_centred_numbers_and_codes(dtype):
    X = table().astype(dtype)
    center = np.arange(10.0)
    inputs = GridInputs(center, ((2, 3, 4, 5), (6, 7, 8)))
    found = inputs(X)
    np.testing.assert_allclose(found[:3], (X[:, [0, 1, 9]] - center[[0, 1, 9]]).T, atol=1e-6)
    np.testing.assert_array_equal(found[3], X[:, 2:6].argmax(axis=1) + 1)
    np.testing.assert_array_equal(found[4], X[:, 6:9].argmax(axis=1) + 1)
    assert inputs.categorical.tolist() == [False, False, False, True, True]


def test_a_large_offset_costs_no_digits():
    X = 1e9 + np.random.default_rng(0).normal(size=(100, 1))
    found = GridInputs(np.array([1e9]))(X)
    np.testing.assert_allclose(found[0], X[:, 0] - 1e9, atol=1e-6)


def test_scores_are_sums_of_tables_also_after_a_round_trip():
    X = table(3000)
    inputs = GridInputs(np.zeros(10), one_hot_groups(X))
    rng, bits = np.random.default_rng(1), np.repeat(np.array([6, 9], np.uint32), 20)
    coef, unit = rng.integers(-99, 99, (20 * 64 + 20 * 512, 2)).astype(np.int16), rng.random((40, 2)).astype(np.float32)
    coef[5::3] = 0
    settings = GridSettings(np.full(5, 0.5), np.full(5, 0.7), 10.0)
    machine = GridMachine(inputs, settings, 3, bits, Tables(coef, unit), np.array([1.0, 2.0]))
    places = machine.binning.codes(np.ascontiguousarray(inputs(X).T)) + machine.binning.starts[:-1, None]
    expected = (coef[places] * unit[:, None]).sum(axis=0, dtype=np.float64) * [1.0, 2.0]
    np.testing.assert_allclose(machine.scores(X), expected, rtol=1e-4, atol=1e-2)
    np.testing.assert_array_equal(machine.scores(X[7:8]), machine.scores(X)[7:8])
    again = GridMachine.build(machine.spec(), machine.arrays())
    np.testing.assert_array_equal(again.tables.coef, coef)
    np.testing.assert_array_equal(again.scores(X), machine.scores(X))
    assert machine.arrays()["coef"].shape == (np.count_nonzero(coef.any(axis=1)), 2)
    pickled = pickle.dumps(machine)
    assert len(pickled) < coef.nbytes
    np.testing.assert_array_equal(pickle.loads(pickled).tables.coef, coef)


@pytest.mark.parametrize(
    ("wrong", "bits"),
    [
        ({}, [5] * 16),
        ({}, [60] * 16),
        ({}, [6] * 15),
        ({"groups": [[0, 1], [2, 99]]}, [6] * 16),
        ({"kind": "trees"}, [6] * 16),
    ],
    ids=["bits", "many bits", "grids", "groups", "kind"],
)
def test_a_machine_that_its_arrays_do_not_describe_is_refused(wrong, bits):
    tables = Tables(np.ones((16 * 64, 1), np.int16), np.ones((16, 1), np.float32))
    settings = GridSettings(np.ones(10), np.ones(10), 10.0)
    machine = GridMachine(GridInputs(np.zeros(10)), settings, 3, np.full(16, 6, np.uint32), tables, np.ones(1))
    assert [machine.fits(10, 1), machine.fits(9, 1), machine.fits(10, 2)] == [True, False, False]
    with pytest.raises((ValueError, IndexError, AssertionError)):
        assert local_machine(machine.spec() | wrong, machine.arrays() | {"bits": np.array(bits, np.uint8)}).fits(10, 1)


def test_the_groups_of_an_encoding_are_whole_and_others_are_found():
    from dkernel.data.encoding import CategoryColumn, Encoding, NumberColumn

    columns = (
        CategoryColumn("s", ("a", "b", "never")),
        CategoryColumn("t", ("u",)),
        NumberColumn("x", 0.0, indicator=True),
        NumberColumn("flag", 0.0),
        CategoryColumn("many", ("u", "v", "w"), missing=True),
    )
    encoding = Encoding(columns)
    assert encoding.groups == ((0, 1, 2), (3,), (5,), (7, 8, 9, 10))
    rng = np.random.default_rng(0)
    rows = {"s": list("abab"), "t": ["u", None, None, None], "x": rng.normal(size=4), "flag": [0.0, 1.0, 1.0, 0.0]}
    import pyarrow as pa

    X, _ = encoding.encode(pa.table({**rows, "many": ["v", None, "w", "x"]}))
    made = set(range(11)) - {4, 6}
    # On the sample alone s and t are neighbours that no row tells apart from one category.
    assert one_hot_groups(X, encoding.groups, made) == ((0, 1, 2), (3,), (5,), (6,), (7, 8, 9, 10))
