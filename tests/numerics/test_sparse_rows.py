"""Sparse rows are held to the dense ones that they stand for."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp

from dkernel.errors import DataError, UnsupportedError
from dkernel.kernels import parse
from dkernel.numerics.rows import squares, stack
from dkernel.numerics.sparse_rows import FOLDED_COLUMNS, RangeNames, SparseRows, as_sparse, is_wide, named

KERNELS = [
    "Gaussian(gamma=0.1)", "Exponential(2.0)", "Matern(1.5, 2.0)", "Matern(1.2, 2.0)", "RationalQuadratic(1.0, 2.0)",
    "Cauchy(2.0)", "Linear()", "Polynomial(3, 1.0)", "ArcCosine()", "ArcCosine(0)", "Linear() + Gaussian(gamma=0.1)",
    "Gaussian(gamma=0.1) * Polynomial(2, 1.0)", "PowerSeries(Linear(), [1, 1])", "Exp(0.1 * Linear())",
    "Normalized(Polynomial(2, 1.0))",
]  # fmt: skip


def random_rows(n=40, p=3000, seed=0, density=0.01):
    matrix = sp.random_array((n, p), density=density, format="csr", rng=np.random.default_rng(seed))
    return SparseRows.of(matrix), matrix.toarray()


@pytest.mark.parametrize("text", KERNELS)
def test_kernels_of_sparse_rows_are_those_of_the_rows(text):
    (X, dense), (Z, other), kernel = random_rows(), random_rows(30, seed=1), parse(text)
    assert kernel.takes_sparse
    np.testing.assert_allclose(kernel(X, Z), kernel(dense, other), rtol=1e-10, atol=1e-10)
    own = kernel(X, X)
    np.testing.assert_array_equal(own, own.T)
    np.testing.assert_allclose(kernel.diag(X), kernel.diag(dense), rtol=1e-12)
    np.testing.assert_allclose(kernel.diag(X), np.diag(own), rtol=1e-12)


@pytest.mark.parametrize("text", ["Laplacian(0.1)", "ProductCauchy(1.0)", "AdditiveChi2()", "Linear().on([1])",
                                  "Gaussian(gamma=(1.0, 2.0))", "Linear() + Laplacian(1.0)"])  # fmt: skip
def test_kernels_that_look_at_columns_refuse_sparse_rows(text):
    with pytest.raises(UnsupportedError, match="cannot be taken of sparse rows"):
        parse(text)(random_rows()[0])


def test_parts_of_sparse_rows_are_parts_of_the_rows():
    X, dense = random_rows()
    some = np.array([7, 3, 3, 39])
    for part in (slice(5, 9), slice(0, 0), slice(1, 40, 7), slice(30, 90), some, dense[:, 0] == 0):
        np.testing.assert_array_equal(X[part].tocsr().toarray(), dense[part])
    np.testing.assert_array_equal(stack([X[:3], X[3:3], X[3:]]).tocsr().toarray(), dense)
    np.testing.assert_array_equal(X.pad(38, 4).tocsr().toarray()[:2], dense[38:])
    assert len(X.pad(38, 4)) == 4
    np.testing.assert_allclose(squares(X), squares(dense), rtol=1e-14)
    again = pickle.loads(pickle.dumps(X))
    np.testing.assert_array_equal((again @ X.T), X @ X.T)
    built = SparseRows.build(X.arrays(), X.width)
    np.testing.assert_array_equal(built.tocsr().toarray(), dense)


def test_a_row_has_the_same_products_alone_and_among_others():
    (X, _), (Z, _) = random_rows(), random_rows(30, seed=1)
    whole = X @ Z.T
    for i in (0, 17, 39):
        np.testing.assert_array_equal(X[i : i + 1] @ Z.T, whole[i : i + 1])


def test_folding_keeps_likeness():
    X, dense = random_rows(400, density=0.002)
    folded = X.fold()
    assert folded.shape == (400, FOLDED_COLUMNS)
    np.testing.assert_allclose(np.abs(folded).sum(), np.abs(dense).sum(), rtol=0.05)
    np.testing.assert_array_equal(X[5:6].fold()[0], folded[5])


def test_what_is_no_block_of_sparse_rows_is_refused():
    X, dense = random_rows()
    with pytest.raises(TypeError, match="do not become an array"):
        np.asarray(X)
    with pytest.raises(DataError, match="3000"):
        as_sparse(X, RangeNames(0, 2999), "float32")
    with pytest.raises(DataError, match="numbers are needed"):
        as_sparse(sp.csr_array(dense.astype(complex)), RangeNames(0, 3000), "float32")
    dense[17, 2222] = np.inf
    with pytest.raises(DataError, match="row 17, column '2223': the value inf is not finite"):
        as_sparse(sp.csr_array(dense), RangeNames(1, 3000), "float32")
    dense[17, 2222] = 1e300
    with pytest.raises(DataError, match="too large for float32"):
        as_sparse(dense, RangeNames(0, 3000), "float32")
    for name, value in (("starts", X.starts[::-1].copy()), ("indices", X.indices[::-1].copy()), ("values", X.data[1:])):
        with pytest.raises(ValueError, match="sparse rows"):
            SparseRows.build({**X.arrays(), name: value}, X.width)


def test_entries_given_twice_are_added_and_zeros_left_out():
    doubled = sp.csr_matrix((np.array([1.0, 2.0, 0.0]), np.array([4, 4, 1]), np.array([0, 3])), shape=(1, 6))
    rows = SparseRows.of(doubled)
    assert (rows.data.tolist(), rows.indices.tolist()) == ([3.0], [4])
    assert doubled.nnz == 3  # the caller's own matrix is left as it was


def test_names_of_numbered_columns():
    names = RangeNames(1, 1000)
    assert list(names)[:3] == ["1", "2", "3"]
    assert names[-1] == "1000"
    assert names[1:3] == ("2", "3")
    assert "1000" in names
    assert "0" not in names
    assert "x" not in names
    assert names == RangeNames(1, 1000)
    assert names != RangeNames(0, 1000)
    assert named(names) == ("RangeNames(first=1, n=1000)",)
    assert named(("a", "b")) == ("a", "b")
    assert is_wide(5000, 0.01)
    assert not is_wide(5000, 0.5)
    assert not is_wide(4096)
