"""The obvious second version of what dkernel computes: slow, a few lines each, no cleverness."""

import math

import numpy as np
import scipy.optimize


def linear(x, z):
    return math.fsum(a * b for a, b in zip(x, z, strict=True))


def polynomial(x, z, degree, c):
    return (linear(x, z) + c) ** degree


def gaussian(x, z, gamma):
    return math.exp(-gamma * math.fsum((a - b) ** 2 for a, b in zip(x, z, strict=True)))


def laplacian(x, z, gamma):
    return math.exp(-gamma * math.fsum(abs(a - b) for a, b in zip(x, z, strict=True)))


def gram(function, X, Z):
    return [[function(x, z) for z in Z.tolist()] for x in X.tolist()]


def truncated_approximation(K_xz, K_zz, rank):
    """K_xz V diag(1 / λ) V^T K_xz^T over the `rank` largest eigenvalues of K_zz: the rank-k Nystrom approximation."""
    values, vectors = np.linalg.eigh(np.asarray(K_zz))
    total = 0.0
    for i in np.argsort(values)[::-1][:rank]:
        coordinate = np.asarray(K_xz) @ vectors[:, i]
        total = total + np.outer(coordinate, coordinate) / values[i]
    return total


def effective_dimension(S, M, rho):
    """tr S (S + rho M)^{-1}, by a dense inverse."""
    return float(np.trace(np.asarray(S) @ np.linalg.inv(np.asarray(S) + rho * np.asarray(M))))


def ridge_at(S, M, dimension):
    """The rho of that effective dimension, by bisection on the exact formula."""
    low, high = 1e-16, 1e8
    for _ in range(200):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if effective_dimension(S, M, middle) > dimension else (low, middle)
    return middle


LOSS_VALUES = {
    "squared": lambda y, s: 0.5 * (s - y) ** 2,
    "hinge": lambda y, s: np.maximum(0.0, 1 - y * s),
    "squared_hinge": lambda y, s: 0.5 * np.maximum(0.0, 1 - y * s) ** 2,
    "logistic": lambda y, s: np.log1p(np.exp(-np.abs(y * s))) + np.maximum(0.0, -y * s),
}
LOSS_SLOPES = {
    "squared": lambda y, s: s - y,
    "hinge": lambda y, s: np.where(y * s < 1, -y, 0.0),
    "squared_hinge": lambda y, s: -y * np.maximum(0.0, 1 - y * s),
    "logistic": lambda y, s: -y / (1 + np.exp(np.clip(y * s, -500, 500))),
}


def optimum(F, Y, loss, alpha, weight=None):
    """Minimizer of sum of weight * loss / sum of weight + alpha / 2 |w|^2, w (D, C) and b (C,), by L-BFGS in float64.

    Works in coordinates where the features' covariance plus a little ridge is the identity.
    """
    n, D = F.shape
    share = np.full(n, 1.0 / n) if weight is None else weight / weight.sum()
    values, vectors = np.linalg.eigh((F * share[:, None]).T @ F)
    T = vectors / np.sqrt(np.maximum(values, 0) + max(alpha, 1e-10))
    G = F @ T
    w, b = np.zeros((D, Y.shape[1])), np.zeros(Y.shape[1])
    metric = T.T @ T
    for c in range(Y.shape[1]):
        y = Y[:, c]

        def both(z, y=y):
            s = G @ z[:-1] + z[-1]
            slope = share * LOSS_SLOPES[loss](y, s)
            pull = metric @ z[:-1]
            value = float(share @ LOSS_VALUES[loss](y, s)) + 0.5 * alpha * float(z[:-1] @ pull)
            return value, np.append(G.T @ slope + alpha * pull, slope.sum())

        found = scipy.optimize.minimize(
            both, np.zeros(D + 1), jac=True, method="L-BFGS-B", options={"maxiter": 2000, "ftol": 1e-14, "gtol": 1e-9}
        )
        w[:, c], b[c] = T @ found.x[:-1], found.x[-1]
    return w, b
