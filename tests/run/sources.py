"""Sources of a given layout of units and chunks, and data sets for the fits of the tests."""

import hashlib
from dataclasses import replace

import numpy as np
from dask.delayed import Delayed

from dkernel.data import from_arrays
from dkernel.data.block import Block
from dkernel.data.source import Unit


def cut(X, y, weight, units):
    """The rows as blocks of the given sizes, one list a unit."""
    first, out = 0, []
    for sizes in units:
        blocks = []
        for n in sizes:
            part = slice(first, first + n)
            blocks.append(Block(X[part], None if y is None else y[part], None if weight is None else weight[part]))
            first += n
        out.append(tuple(blocks))
    assert first == len(X)
    return out


def pass_on(blocks):
    return blocks


def source_of(X, y, units, weight=None):
    """A source whose units have chunks of these sizes: [(500, 700), (1300,)] are two units of three chunks."""
    token = hashlib.sha256(X.tobytes() + np.asarray(y).tobytes() + str(units).encode()).hexdigest()[:12]
    if weight is not None:
        token += hashlib.sha256(weight.tobytes()).hexdigest()[:12]
    made = []
    for i, blocks in enumerate(cut(X, y, weight, units)):
        task = Delayed(f"test-unit-{token}-{i}", {f"test-unit-{token}-{i}": (pass_on, blocks)})
        made.append(Unit(tuple(units[i]), task, f"unit {i}"))
    plain = from_arrays(X, y, weight)
    return replace(plain, units=tuple(made), fingerprint=token)
