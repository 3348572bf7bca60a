"""One catalogue, every member under every law, on data that are kind and on data that are not."""

import copy
import pickle

import numpy as np
import pytest

import dkernel
from dkernel.kernels import COLUMN_BLOCK, Kernel, kernel_names, parse
from dkernel.leaves.analysis.psd_check import is_psd
from tests import reference
from tests.kernels.catalogue import CATALOGUE, OBJECTS

RNG = np.random.default_rng(20)
NORMAL = RNG.standard_normal((40, 5))
DATA = {
    "normal": NORMAL,
    "duplicates": NORMAL[RNG.integers(0, 6, 40)],
    "offset": NORMAL + 1e6,
    "near": NORMAL[0] + 1e-8 * NORMAL,
    "far near": np.vstack([NORMAL[:20] * 1e-7 + 3e4, NORMAL[20:] * 1e-7 - 3e4]),
    "constant": np.ones((7, 3)),
    "one column": NORMAL[:, :1],
    "one row": NORMAL[:1],
    "collinear": np.outer(np.linspace(-3, 3, 40), NORMAL[0]),
    "huge": NORMAL * 1e6,
    "zeros and copies": np.vstack([np.zeros((5, 5)), np.repeat(NORMAL[:3], 4, axis=0), -NORMAL[:3]]),
    "scales": NORMAL * np.array([1e-6, 1e-3, 1, 1e3, 1e4]),
}

each = pytest.mark.parametrize("member", CATALOGUE, ids=repr)


def all_data(member):
    """Name and rows of each data set, as the kernel takes them."""
    return [(name, member.data(X)) for name, X in DATA.items()]


def scale(k, X, Z):
    """sqrt(k(x, x) k(z, z)): what |k(x, z)| cannot exceed, so what an error is compared with."""
    return np.sqrt(np.multiply.outer(k.diag(X.astype(float)), k.diag(Z.astype(float))))


@each
def test_symmetric_with_its_diagonal(member):
    for name, X in all_data(member):
        K = member.kernel(X)
        assert np.array_equal(K, K.T), name
        assert np.array_equal(K, member.kernel(X, X)), name
        np.testing.assert_allclose(member.kernel.diag(X), np.diag(K), rtol=1e-12, err_msg=name)


@each
def test_positive_semidefinite(member):
    for name, X in all_data(member):
        eigenvalues = np.linalg.eigvalsh(member.kernel(X))
        assert eigenvalues[0] >= -1e-12 * max(eigenvalues[-1], 1e-300), name


@each
def test_equals_reference(member):
    for name, X in all_data(member):
        Z = X[::-3].copy()
        expected = reference.gram(member.reference, X, Z)
        error = np.abs(member.kernel(X, Z) - expected)
        assert (error <= 5e-12 * scale(member.kernel, X, Z)).all(), name


@each
@pytest.mark.parametrize("offset", [0, 30, 1e3])
def test_float32_stays_and_is_as_exact_as_it_can_be(member, offset):
    X = member.data(NORMAL + offset).astype(np.float32)
    Z = X[::2].copy()
    K = member.kernel(X, Z)
    assert K.dtype == np.float32
    assert member.kernel.diag(X).dtype == np.float32
    exact = member.kernel(X.astype(float), Z.astype(float))
    assert (np.abs(K - exact) <= 1e-7 * scale(member.kernel, X, Z)).all()


@each
def test_columns_equal_the_kernel(member):
    X = member.data(RNG.standard_normal((256, 9)).astype(np.float32))
    Z = member.data(RNG.standard_normal((COLUMN_BLOCK + 130, 9)).astype(np.float32))
    Z[:20] = X[:20]
    columns = member.kernel.columns(Z)
    assert columns.n == len(Z)
    rows = columns.rows(X)
    bound = scale(member.kernel, X, Z)
    exact = member.kernel(X.astype(float), Z.astype(float))
    for first, width in [(0, COLUMN_BLOCK), (COLUMN_BLOCK, 130), (0, 64)]:
        out = np.full((256, width), np.nan, dtype=np.float32)
        columns.fill(rows, first, out)
        block = slice(first, first + width)
        # The exponent of Gaussian(gamma=30) is a difference of some hundreds, and float32 holds it to 1e-4.
        tolerance = 2e-4 if "gamma=30" in repr(member) else 6e-6
        assert (np.abs(out - exact[:, block]) <= tolerance * bound[:, block]).all()


@each
def test_columns_are_pure(member):
    X = member.data(RNG.standard_normal((256, 4)).astype(np.float32))
    Z = member.data(RNG.standard_normal((70, 4)).astype(np.float32))
    before = X.copy(), Z.copy()
    columns = member.kernel.columns(Z)
    first, second = np.empty((256, 70), np.float32), np.empty((256, 70), np.float32)
    rows = columns.rows(X)
    columns.fill(rows, 0, first)
    columns.fill(rows, 0, second)
    assert np.array_equal(first, second)
    assert np.array_equal(X, before[0])
    assert np.array_equal(Z, before[1])


@each
def test_arguments_are_not_modified(member):
    rows = member.data(NORMAL)
    X, Z = rows.copy(), rows[:9].copy()
    member.kernel(X, Z)
    member.kernel.diag(X)
    assert np.array_equal(X, rows)
    assert np.array_equal(Z, rows[:9])


@each
def test_text_reads_back(member):
    assert parse(repr(member.kernel)) == member.kernel
    assert repr(parse(repr(member.kernel))) == repr(member.kernel)


@each
def test_travels(member):
    X = member.data(NORMAL)
    for travelled in (pickle.loads(pickle.dumps(member.kernel)), copy.deepcopy(member.kernel)):
        assert travelled == member.kernel
        assert hash(travelled) == hash(member.kernel)
        assert np.array_equal(travelled(X), member.kernel(X))


def test_equal_only_to_themselves():
    kernels = [member.kernel for member in CATALOGUE]
    assert len(set(kernels)) == len(kernels)


@each
def test_algebra(member):
    k, other = member.kernel, CATALOGUE[0].kernel
    X = member.data(NORMAL)
    Z = X[:7]
    assert np.allclose((k + other)(X, Z), k(X, Z) + other(X, Z), rtol=1e-12)
    assert np.allclose((k * other)(X, Z), k(X, Z) * other(X, Z), rtol=1e-12)
    assert np.allclose((2.5 * k)(X, Z), 2.5 * k(X, Z), rtol=1e-12)
    assert (k + other) + k == k + (other + k)
    assert (k * other) * k == k * (other * k)
    assert 2 * (3 * k) == 6 * k
    assert k * 2 == 2 * k
    assert sum([k, other]) == k + other


def never(metric, word):
    raise AssertionError(f"asked for {word} of {metric}")


@each
def test_nothing_is_left_to_bind(member):
    assert member.kernel.placeholders == ()
    assert member.kernel.bind(never) == member.kernel
    X = member.data(NORMAL)
    assert member.kernel(X[:0], X).shape == (0, 40)
    assert member.kernel(X, X[:0]).shape == (40, 0)


@each
def test_two_rows_are_a_number(member):
    X = member.data(NORMAL)
    value = member.kernel(X[0], X[1])
    assert isinstance(value, float)
    np.testing.assert_allclose(value, member.kernel(X[:2])[0, 1], rtol=1e-10)


of_objects = pytest.mark.parametrize(("k", "rows"), OBJECTS, ids=lambda value: repr(value)[:50])


@of_objects
def test_laws_among_objects(k, rows):
    K = k(rows)
    assert np.array_equal(K, K.T)
    assert is_psd(k, rows)
    np.testing.assert_allclose(k.diag(rows), np.diag(K), rtol=1e-12)
    np.testing.assert_allclose(dkernel.gram(k, rows), K)
    np.testing.assert_allclose((2.5 * k + k * k)(rows), 2.5 * K + K * K, rtol=1e-12)
    columns, out = k.columns(rows[:3]), np.empty((len(rows), 3), np.float32)
    block = np.empty(len(rows), dtype=object)
    block[:] = rows
    columns.fill(columns.rows(block), 0, out)
    np.testing.assert_allclose(out, k(rows, rows[:3]), rtol=1e-6)
    for again in (parse(repr(k)), pickle.loads(pickle.dumps(k))):
        assert (again, repr(again), hash(again)) == (k, repr(k), hash(k))
        np.testing.assert_array_equal(again(rows), K)


def parts_of(value):
    """A kernel and every kernel in it."""
    if isinstance(value, Kernel):
        yield value
        value = list(vars(value).values())
    if isinstance(value, list | tuple):
        for part in value:
            yield from parts_of(part)


def test_every_kernel_there_is_stands_in_the_catalogue():
    kernels = [member.kernel for member in CATALOGUE] + [k for k, _ in OBJECTS]
    found = {type(part).__name__ for k in kernels for part in parts_of(k)}
    public = {name for name in dkernel.__all__ if isinstance(getattr(dkernel, name), type)}
    public = {name for name in public if issubclass(getattr(dkernel, name), Kernel)}
    assert len(public) >= 19
    assert public | {"Sum", "Product", "Scaled", "Selection"} <= found
    assert {name.lower() for name in found} & set(kernel_names()) >= {name.lower() for name in public}
