"""Every kernel, each beside its obvious second version. Every law of test_laws.py runs over every line."""

from collections.abc import Callable
from dataclasses import dataclass

from dkernel.kernels import Gaussian, Kernel, Laplacian, Linear, Polynomial
from tests import reference as ref


@dataclass(frozen=True)
class Member:
    kernel: Kernel
    reference: Callable[[list[float], list[float]], float]

    def __repr__(self):
        return repr(self.kernel)


CATALOGUE = [
    Member(Linear(), ref.linear),
    Member(Polynomial(), lambda x, z: ref.polynomial(x, z, 3, 1.0)),
    Member(Polynomial(degree=2, c=0), lambda x, z: ref.polynomial(x, z, 2, 0.0)),
    Member(Polynomial(degree=1, c=2.5), lambda x, z: ref.polynomial(x, z, 1, 2.5)),
    Member(Polynomial(degree=5, c=0.1), lambda x, z: ref.polynomial(x, z, 5, 0.1)),
    Member(Gaussian(gamma=0.1), lambda x, z: ref.gaussian(x, z, 0.1)),
    Member(Gaussian(sigma=2.0), lambda x, z: ref.gaussian(x, z, 0.125)),
    Member(Gaussian(gamma=30), lambda x, z: ref.gaussian(x, z, 30.0)),
    Member(Gaussian(gamma=1 / 3), lambda x, z: ref.gaussian(x, z, 1 / 3)),
    Member(Laplacian(gamma=0.1), lambda x, z: ref.laplacian(x, z, 0.1)),
    Member(Laplacian(gamma=2), lambda x, z: ref.laplacian(x, z, 2.0)),
    Member(
        Gaussian(gamma=0.1) + 0.5 * Laplacian(gamma=0.2) + Linear(),
        lambda x, z: ref.gaussian(x, z, 0.1) + 0.5 * ref.laplacian(x, z, 0.2) + ref.linear(x, z),
    ),
    Member(
        Gaussian(gamma=0.1) * Laplacian(gamma=0.2) * Gaussian(gamma=0.3),
        lambda x, z: ref.gaussian(x, z, 0.4) * ref.laplacian(x, z, 0.2),
    ),
    Member(3 * (Gaussian(gamma=0.1) + Linear()), lambda x, z: 3 * (ref.gaussian(x, z, 0.1) + ref.linear(x, z))),
    Member(
        (2 * Gaussian(gamma=0.1)) * (0.5 * Linear() + Polynomial(degree=2)) * (7 * Laplacian(gamma=0.01)),
        lambda x, z: (
            (14 * ref.gaussian(x, z, 0.1) * ref.laplacian(x, z, 0.01))
            * (0.5 * ref.linear(x, z) + ref.polynomial(x, z, 2, 1))
        ),
    ),
    Member(1e-3 * (Gaussian(gamma=0.1) * Linear()), lambda x, z: 1e-3 * ref.gaussian(x, z, 0.1) * ref.linear(x, z)),
]
