"""Texts, hashed into so many columns that they stay sparse: what the tests of sparse rows are made of."""

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

P = 2**20


def texts(n: int, p: int = P, seed: int = 0, words: int = 30) -> tuple[sp.csr_matrix, NDArray[np.int64]]:
    """Rows of length 1 with about `words` of p columns, and one of two classes: it says which words are likely."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    word = np.where(rng.random((n, words)) < 0.4, (1 + y[:, None]) * 100, 1000) + rng.zipf(1.5, (n, words)) % 90
    columns = (word * 2654435761) % p
    values = rng.uniform(0.5, 2.0, n * words).astype(np.float32)
    X = sp.csr_matrix((values, columns.ravel(), np.arange(n + 1) * words), shape=(n, p))
    X.sum_duplicates()
    X.data /= np.repeat(np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel()), np.diff(X.indptr))
    return X, y
