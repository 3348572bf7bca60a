"""The obvious second version of what dkernel computes: slow, a few lines each, no cleverness."""

import math

import numpy as np
import scipy.linalg
import scipy.optimize


def linear(x, z):
    return math.fsum(a * b for a, b in zip(x, z, strict=True))


def polynomial(x, z, degree, c):
    return (linear(x, z) + c) ** degree


def gaussian(x, z, gamma):
    return math.exp(-gamma * math.fsum((a - b) ** 2 for a, b in zip(x, z, strict=True)))


def laplacian(x, z, gamma):
    return math.exp(-gamma * math.fsum(abs(a - b) for a, b in zip(x, z, strict=True)))


def distance(x, z):
    return math.sqrt(math.fsum((a - b) ** 2 for a, b in zip(x, z, strict=True)))


def gaussian_per_column(x, z, gammas):
    return math.exp(-math.fsum(g * (a - b) ** 2 for a, b, g in zip(x, z, gammas, strict=True)))


def exponential(x, z, length):
    return math.exp(-distance(x, z) / length)


def matern_half(x, z, n, length):
    """nu = n + 1/2, by the finite sum (Rasmussen and Williams 2006, 4.16)."""
    a = math.sqrt(2 * n + 1) * distance(x, z) / length
    terms = [
        math.factorial(n + i) / math.factorial(i) / math.factorial(n - i) * (2 * a) ** (n - i) for i in range(n + 1)
    ]
    return math.exp(-a) * math.factorial(n) / math.factorial(2 * n) * math.fsum(terms)


def matern(x, z, nu, length):
    """K_nu(a) = the integral of exp(-a cosh t) cosh(nu t) over t > 0, by the trapezoid rule."""
    a = math.sqrt(2 * nu) * distance(x, z) / length
    if a == 0:
        return 1.0
    t = np.linspace(0, math.acosh(max(1, 800 / a)) + 1, 2000)
    with np.errstate(over="ignore"):
        f = np.exp(-a * np.cosh(t)) * np.cosh(nu * t)
    integral = (f.sum() - f[0] / 2) * t[1]
    return float(2 ** (1 - nu) / math.gamma(nu) * a**nu * integral)


def rational_quadratic(x, z, alpha, length):
    return (1 + distance(x, z) ** 2 / (2 * alpha * length**2)) ** -alpha


def cauchy(x, z, length):
    return 1 / (1 + (distance(x, z) / length) ** 2)


def product_cauchy(x, z, length):
    return math.prod(1 / (1 + ((a - b) / length) ** 2) for a, b in zip(x, z, strict=True))


def additive_chi2(x, z):
    return math.fsum(2 * a * b / (a + b) for a, b in zip(x, z, strict=True) if a + b)


def arc_cosine(x, z, order):
    """The angle by its sine and cosine in the plane of the two: by Kahan's formula, with unit vectors."""
    u, v = math.sqrt(linear(x, x)), math.sqrt(linear(z, z))
    if u == 0 or v == 0:
        return 0.0 if order else 0.5
    own, other = [a / u for a in x], [b / v for b in z]
    angle = 2 * math.atan2(distance(own, other), distance(own, [-b for b in other]))
    if order == 0:
        return 1 - angle / math.pi
    return u * v * (math.sin(angle) + (math.pi - angle) * math.cos(angle)) / math.pi


def shared_substrings(s, t, k):
    return sum(s[i : i + k] == t[j : j + k] for i in range(len(s) - k + 1) for j in range(len(t) - k + 1))


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
    "perceptron": lambda y, s: np.maximum(0.0, -y * s),
    "huber": lambda y, s: np.where(abs(s - y) <= 1.35, 0.5 * (s - y) ** 2, 1.35 * abs(s - y) - 0.5 * 1.35**2),
    "epsilon_insensitive": lambda y, s: np.maximum(0.0, abs(s - y) - 0.1),
    "quantile": lambda y, s: 0.5 * abs(s - y),
}
LOSS_SLOPES = {
    "squared": lambda y, s: s - y,
    "hinge": lambda y, s: np.where(y * s < 1, -y, 0.0),
    "squared_hinge": lambda y, s: -y * np.maximum(0.0, 1 - y * s),
    "logistic": lambda y, s: -y / (1 + np.exp(np.clip(y * s, -500, 500))),
    "perceptron": lambda y, s: np.where(y * s <= 0, -y, 0.0),
    "huber": lambda y, s: np.where(abs(s - y) <= 1.35, s - y, 1.35 * np.sign(s - y)),
    "epsilon_insensitive": lambda y, s: np.where(abs(s - y) > 0.1, np.sign(s - y), 0.0),
    "quantile": lambda y, s: 0.5 * np.sign(s - y),
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
            both, np.zeros(D + 1), jac=True, method="L-BFGS-B", options={"maxiter": 2000, "ftol": 1e-11, "gtol": 1e-7}
        )
        w[:, c], b[c] = T @ found.x[:-1], found.x[-1]
    return w, b


def leverage(K, ridge):
    """The ridge leverage scores diag K (K + ridge n I)^{-1}, by a dense inverse."""
    K = np.asarray(K)
    return np.diag(K @ np.linalg.inv(K + ridge * len(K) * np.eye(len(K))))


def nystrom(K_xz, K_zz):
    """K_xz K_zz^+ K_xz^T, with the pseudo-inverse of the singular value decomposition."""
    return np.asarray(K_xz) @ np.linalg.pinv(np.asarray(K_zz), rcond=1e-13, hermitian=True) @ np.asarray(K_xz).T


def perceptron(K, y, passes, bias=True):
    """Coefficients, bias and number of mistakes of the kernel perceptron, as the texts write it: y -1 or +1."""
    a, b, mistakes = np.zeros(len(y)), 0.0, 0
    for _ in range(passes):
        for i in range(len(y)):
            if y[i] * (sum(a[j] * K[j, i] for j in range(len(y))) + b) <= 0:
                a[i] += y[i]
                b += y[i] if bias else 0.0
                mistakes += 1
    return a, b, mistakes


def kernel_cca(K, L, alpha, pairs):
    """f and g of all rows (n, pairs) and cov(f, g): eigenvectors of the whole problem, as the definition writes it.

    max a^T K L b / n  with  a^T (K K / n + alpha K) a = 1 = b^T (L L / n + alpha L) b, K and L centred.
    """
    n = len(K)
    center = np.eye(n) - 1 / n
    K, L = center @ np.asarray(K) @ center, center @ np.asarray(L) @ center
    zero, tiny = np.zeros((n, n)), 1e-11 * np.eye(n)
    A = np.block([[zero, K @ L / n], [L @ K / n, zero]])
    B = np.block([[K @ K / n + alpha * K + tiny, zero], [zero, L @ L / n + alpha * L + tiny]])
    values, vectors = scipy.linalg.eigh(A, B)
    a, b = vectors[:n, ::-1][:, :pairs], vectors[n:, ::-1][:, :pairs]
    # Each half of an eigenvector of length 1 has length 1/2.
    return math.sqrt(2) * K @ a, math.sqrt(2) * L @ b, values[::-1][:pairs]
