"""The obvious second version of what dkernel computes: slow, a few lines each, no cleverness."""

import math


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
