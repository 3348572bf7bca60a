"""Sources of a given layout of units and chunks, and data sets for the fits of the tests."""

import hashlib
from dataclasses import replace

import numpy as np
from dask.delayed import Delayed

from dkernel.data.block import Block
from dkernel.data.collections.arrays import from_arrays
from dkernel.data.source import Unit
from dkernel.numerics.sparse_rows import SparseRows


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
    content = b"".join(part.tobytes() for part in X.arrays().values()) if isinstance(X, SparseRows) else X.tobytes()
    token = hashlib.sha256(content + np.asarray(y).tobytes() + str(units).encode()).hexdigest()[:12]
    if weight is not None:
        token += hashlib.sha256(weight.tobytes()).hexdigest()[:12]
    made = []
    for i, blocks in enumerate(cut(X, y, weight, units)):
        task = Delayed(f"test-unit-{token}-{i}", {f"test-unit-{token}-{i}": (pass_on, blocks)})
        made.append(Unit(tuple(units[i]), task, f"unit {i}"))
    plain = from_arrays(X, y, weight)
    return replace(plain, units=tuple(made), fingerprint=token)


def rings(n, seed=0, p=6, classes=2, noise=0.05):
    """Rows whose class is the ring that they stand in; a share of the labels is drawn anew."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)).astype(np.float32)
    radius = (X[:, :3].astype(float) ** 2).sum(axis=1) + 0.7 * X[:, 3]
    y = np.searchsorted(np.quantile(radius, np.arange(1, classes) / classes), radius)
    anew = rng.random(n) < noise
    y[anew] = rng.integers(classes, size=int(anew.sum()))
    return X, y


def waves(n, seed=0, p=6, noise=0.1):
    """A smooth function of the rows and some noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)).astype(np.float32)
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * X[:, 3] + noise * rng.standard_normal(n)
    return X, 50.0 + 7.0 * y
