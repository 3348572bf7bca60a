"""The loop over the Shapley values of a sum of products, which `dkernel.leaves.explanation.shapley` defines."""

from typing import Any

from dkernel.numerics.loops import compile_loop

SHAPLEY_BLOCK = 64  # products that are walked together: their factors stay in the first cache


@compile_loop(
    "void(float64[:, ::1], float64[:, :, ::1], float64[:, ::1], float64[::1], float64[::1], float64[:, :, ::1], "
    "float64[:, ::1])"
)
def add_shapley(row: Any, background: Any, coef: Any, nodes: Any, weights: Any, work: Any, out: Any) -> None:
    """Add Σ_b Σ_j coef_j (a_gj - c_bgj) Σ_q weights_q Π_{h≠g} (c_bhj + nodes_q (a_hj - c_bhj)) to each out_g.

    Parameters
    ----------
    row : factors a of the row, float64 (groups, m)
    background : factors c of the other rows, float64 (rows, groups, m)
    coef : float64 (m, outputs)
    nodes, weights : of the quadrature over [0, 1], float64 (nodes,)
    work : room, float64 (3, groups + 1, SHAPLEY_BLOCK): products of the factors before each, what the nodes have given,
        factors
    out : float64 (groups, outputs)
    """
    groups, m = row.shape
    for b in range(background.shape[0]):
        for first in range(0, m, SHAPLEY_BLOCK):
            size = min(SHAPLEY_BLOCK, m - first)
            work[1] = 0.0
            for q in range(nodes.size):
                for j in range(size):
                    work[0, 0, j] = weights[q]
                    work[1, groups, j] = 1.0  # the product of the factors behind
                for g in range(groups):
                    for j in range(size):
                        c = background[b, g, first + j]
                        work[2, g, j] = c + nodes[q] * (row[g, first + j] - c)
                        work[0, g + 1, j] = work[0, g, j] * work[2, g, j]
                for g in range(groups - 1, -1, -1):
                    for j in range(size):
                        work[1, g, j] += work[0, g, j] * work[1, groups, j]
                        work[1, groups, j] *= work[2, g, j]
            for g in range(groups):
                for j in range(size):
                    change = work[1, g, j] * (row[g, first + j] - background[b, g, first + j])
                    for k in range(coef.shape[1]):
                        out[g, k] += change * coef[first + j, k]
