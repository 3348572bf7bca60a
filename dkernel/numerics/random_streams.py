"""Random numbers of a fit, each a function of (seed, purpose, index) alone.

Nothing is drawn from a generator that something else also draws from, so any worker can make any number again, in any
order. Two doors: `stream` for arrays of random numbers, `row_hash` for a decision per row of the data.
"""

import hashlib

import numpy as np
from numpy.typing import NDArray


def _key(seed: int, purpose: str, *index: int) -> int:
    text = "/".join(["dkernel", str(int(seed)), purpose, *(str(int(i)) for i in index)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "little")


def stream(seed: int, purpose: str, *index: int) -> np.random.Generator:
    """Generator of the random numbers for one purpose: a Philox counter keyed by sha256(seed, purpose, index).

    Examples
    --------
    >>> a = stream(7, "frequencies", 0).standard_normal(3)
    >>> b = stream(7, "frequencies", 0).standard_normal(3)
    >>> bool((a == b).all())
    True
    """
    return np.random.Generator(np.random.Philox(key=_key(seed, purpose, *index)))


_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FACTORS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_SHIFTS = (30, 27, 31)  # bits, of splitmix64


def _hash_key(seed: int, purpose: str) -> np.uint64:
    return np.uint64(_key(seed, purpose) & 0xFFFFFFFFFFFFFFFF)


def row_hash(seed: int, purpose: str, first: int, n: int, step: int = 1) -> NDArray[np.uint64]:
    """64 uniform bits for each of the n global row numbers first, first + step, first + 2 step, ...

    The finalizer of splitmix64 over key + row * golden ratio (Steele, Lea, Flood 2014). The same row has the same bits
    whatever chunk it stands in, so "the k smallest" is a uniform sample that no chunking can change.

    Examples
    --------
    >>> whole = row_hash(0, "reservoir", 0, 10)
    >>> bool((whole[4:] == row_hash(0, "reservoir", 4, 6)).all())
    True
    """
    rows = np.uint64(first + 1) + np.arange(n, dtype=np.uint64) * np.uint64(step)
    with np.errstate(over="ignore"):
        z = _hash_key(seed, purpose) + rows * _GOLDEN
        for shift, factor in zip(_SHIFTS, _FACTORS, strict=False):
            z = (z ^ (z >> np.uint64(shift))) * factor
        return z ^ (z >> np.uint64(_SHIFTS[-1]))


def rows_of_hashes(seed: int, purpose: str, hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The global row numbers that have these hashes: `row_hash` the other way round.

    Examples
    --------
    >>> rows_of_hashes(0, "reservoir", row_hash(0, "reservoir", 7, 3)).tolist()
    [7, 8, 9]
    """
    with np.errstate(over="ignore"):
        z = _unshift(hashes, _SHIFTS[-1])
        for shift, factor in zip(_SHIFTS[1::-1], _FACTORS[::-1], strict=True):
            z = _unshift(z * _inverse(factor), shift)
        return np.asarray((z - _hash_key(seed, purpose)) * _inverse(_GOLDEN) - np.uint64(1))


def _unshift(z: NDArray[np.uint64], shift: int) -> NDArray[np.uint64]:
    """The x with x ^ (x >> shift) = z, of shifts by more than a third of the bits."""
    return np.asarray(z ^ (z >> np.uint64(shift)) ^ (z >> np.uint64(2 * shift)))


def _inverse(factor: np.uint64) -> np.uint64:
    return np.uint64(pow(int(factor), -1, 2**64))
