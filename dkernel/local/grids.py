"""Grids as a machine: a table of coefficients for each grid of a `Binning`, fitted by joined rounds on a residual.

The score of a row is the sum over the grids of the coefficient of its bin: kernel ridge regression with the kernel that
the bins estimate, n_grids times over, where the objective is

    1/2 Σ_i n_i (r_i - Σ_g w_g[bin_g(i)])^2 + λ/2 Σ_g |w_g|^2,    λ = n_grids × ridge.

A round takes a group of grids. With sums s_g and weights n_g of the rows of each bin, one grid alone is best changed by
d_g = (s_g - λ w_g) / (n_g + λ). The grids of a group see the same rows, so their changes are joined: η minimises the
objective over w_g + η_g d_g, which takes the products F'F of the outputs F_ig = d_g[bin_g(i)], and F'r. F'r and the
diagonal of F'F follow from the tables exactly; what remains are correlations, which a sample of the rows tells as well
as all rows do. So a round is one reading of the rows and one small system.

Sums are integers: a residual is rounded to a multiple of 2^-k, with k chosen so that no sum can overflow. Integer sums
are the same in any order, whoever adds what.
"""

from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from dkernel.numerics.tiling import compiled

__all__ = ["add_scores", "add_sums", "fixed_point", "joined", "outputs", "to_fixed"]

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
U32 = NDArray[np.uint32]


@compiled("void(uint32[:, ::1], int64[:, ::1], int64[:, :, ::1])", set())
def _add_sums(codes: Any, values: Any, table: Any) -> None:
    for g in range(codes.shape[0]):
        for i in range(codes.shape[1]):
            for c in range(values.shape[1]):
                table[g, codes[g, i], c] += values[i, c]


@compiled("void(uint32[:, ::1], int64[:, ::1], int64[:, :, ::1])", set())
def _add_pairs(codes: Any, values: Any, table: Any) -> None:
    for g in range(codes.shape[0]):
        for i in range(codes.shape[1]):
            table[g, codes[g, i], 0] += values[i, 0]
            table[g, codes[g, i], 1] += values[i, 1]


@compiled("void(uint32[:, ::1], float32[:, :, ::1], float32[:, ::1])", set())
def _add_scores(codes: Any, coef: Any, scores: Any) -> None:
    for g in range(codes.shape[0]):
        for i in range(codes.shape[1]):
            for c in range(scores.shape[1]):
                scores[i, c] += coef[g, codes[g, i], c]


def fixed_point(bound: float, rows: int) -> int:
    """k such that `rows` multiples of 2^-k of at most `bound` cannot overflow a sum of 64 bits.

    Examples
    --------
    >>> fixed_point(1.0, 1_000_000)
    42
    """
    return int(62 - np.ceil(np.log2(max(bound, 2.0**-900))) - np.ceil(np.log2(max(rows, 1))))


def to_fixed(values: NDArray[np.floating], k: int) -> I64:
    """The nearest multiples of 2^-k, as integers."""
    return np.rint(np.ldexp(values.astype(np.float64), k)).astype(np.int64)


def add_sums(codes: U32, values: I64, table: I64) -> None:
    """table[g, codes[g, i]] += values[i], in place.

    Parameters
    ----------
    codes : uint32 (n_grids, rows)
    values : of each row its residuals and, last, its weight, int64 (rows, n_outputs + 1), see `to_fixed`
    table : int64 (n_grids, n_bins, n_outputs + 1)
    """
    (_add_pairs if values.shape[1] == 2 else _add_sums)(codes, values, table)


def add_scores(codes: U32, coef: F32, scores: F32) -> None:
    """scores[i] += Σ_g coef[g, codes[g, i]], one grid after the other, in place.

    Parameters
    ----------
    codes : uint32 (n_grids, rows);  coef : float32 (n_grids, n_bins, n_outputs);  scores : float32 (rows, n_outputs)
    """
    _add_scores(codes, coef, scores)


def outputs(codes: U32, table: F64) -> F64:
    """table[g, codes[g, i]], float64 (n_grids, rows): what each grid alone gives these rows."""
    return np.take_along_axis(table, codes.astype(np.intp), axis=1)


def joined(coef: F32, sums: F64, weights: F64, ridge: float, sample: U32, sample_weight: F64) -> F32:
    """Change of the coefficients of a group of grids in one round.

    Parameters
    ----------
    coef : w, float32 (n_grids of the group, n_bins, n_outputs)
    sums, weights : s and n of each bin, float64 (n_grids, n_bins, n_outputs) and (n_grids, n_bins)
    ridge : λ
    sample : codes of some rows in these grids, uint32 (n_grids, rows)
    sample_weight : of these rows, float64 (rows,)

    Returns
    -------
    η_g d_g, float32, the shape of `coef`
    """
    change = np.empty_like(coef)
    share = weights + ridge
    for c in range(coef.shape[2]):
        w, s = coef[:, :, c].astype(np.float64), sums[:, :, c]
        d = (s - ridge * w) / share
        moment = np.einsum("gb,gb->g", d, s - ridge * w)
        norms = np.einsum("gb,gb->g", d, d)
        F = outputs(sample, d) * np.sqrt(sample_weight)
        correlation = F @ F.T
        exact = np.einsum("gb,gb,gb->g", d, d, weights)
        seen = np.diag(correlation)
        scale = np.sqrt(np.divide(exact, seen, out=np.zeros_like(exact), where=seen > 0))
        system = correlation * scale[:, None] * scale
        system[np.diag_indices_from(system)] = exact + ridge * norms
        step = scipy.linalg.lstsq(system, moment)[0]
        change[:, :, c] = step[:, None] * d
    return change
