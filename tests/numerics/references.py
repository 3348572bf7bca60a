"""Plain numpy twins of compiled functions: each defines the function of its name."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def decay_inplace(tile: NDArray[np.float32], b: float = 0.0, c: float = 0.0) -> None:
    t = np.minimum(np.sqrt(np.maximum(tile.astype(np.float64), 0.0)), 126.0)
    tile[...] = (1 + b * t + c * t * t) * np.exp2(-t)


def refine_squared(X: NDArray[Any], Z: NDArray[Any], x: NDArray[Any], z: NDArray[Any], out: NDArray[Any]) -> None:
    exact = ((X[:, None].astype(np.float64) - Z) ** 2).sum(axis=2)
    out[...] = np.where(out < np.add.outer(x, z) ** 2, exact, out)


def cauchy_products(X: NDArray[Any], Z_transposed: NDArray[Any], out: NDArray[Any]) -> None:
    out[...] = (1 / (1 + (X[:, :, None].astype(np.float64) - Z_transposed[None]) ** 2)).prod(axis=1)


def hadamard_blocks(
    X: NDArray[Any], factors: NDArray[Any], order: NDArray[Any] | None, scales: NDArray[Any], out: NDArray[Any]
) -> None:
    H = np.ones((1, 1))
    while len(H) < len(X):
        H = np.block([[H, H], [H, -H]])
    parts = []
    for b, diagonals in enumerate(factors.astype(np.float64)):
        Z = H @ (diagonals[0][:, None] * X)
        for d in diagonals[1:]:
            Z = H @ (d[:, None] * (Z if order is None else Z[order[b]]))
        parts.append(Z.T)
    out[...] = np.concatenate(parts, axis=1)[:, : len(scales)] * scales


def exp2_inplace(tile: NDArray[np.float32]) -> None:
    tile[...] = np.exp2(np.clip(tile.astype(np.float64), -126.0, 0.0))


def cos_turns_inplace(tile: NDArray[np.float32]) -> None:
    turns = tile.astype(np.float64)
    tile[...] = np.cos(2 * np.pi * (turns - np.rint(turns)))


def sincos_turns_inplace(tiles: NDArray[np.float32]) -> None:
    turns = tiles[0].astype(np.float64)
    angle = 2 * np.pi * (turns - np.rint(turns))
    tiles[0], tiles[1] = np.cos(angle), np.sin(angle)


def l1_distances(X: NDArray, Z_transposed: NDArray, out: NDArray) -> None:
    out[...] = np.abs(X[:, :, None].astype(np.float64) - Z_transposed[None]).sum(axis=1)


def tally(X: NDArray[Any], odd: NDArray[np.uint64]) -> tuple[NDArray[np.float64], NDArray[np.uint64]]:
    wide = X.astype(np.float64)
    mean = wide.mean(axis=0)
    bits = (X + X.dtype.type(0)).view(f"u{X.itemsize}").astype(np.uint64)  # zero has two signs
    return np.array([mean, np.square(wide - mean).sum(axis=0), wide.min(axis=0), wide.max(axis=0)]), odd @ bits
