"""Whether the functions of a kernel are linear."""

from dkernel.kernels.algebra import Scaled, Sum
from dkernel.kernels.base import Kernel
from dkernel.kernels.dot import Linear, Polynomial
from dkernel.kernels.transforms import Selection


def is_linear(kernel: Kernel) -> bool:
    """True if k(x, z) is linear in x, up to a constant.

    Examples
    --------
    >>> is_linear(Linear() + 2.0 * Polynomial(degree=1)), is_linear(Polynomial(degree=2))
    (True, False)
    """
    if isinstance(kernel, Sum):
        return all(map(is_linear, kernel.members))
    if isinstance(kernel, Scaled | Selection):
        return is_linear(kernel.kernel)
    return isinstance(kernel, Linear) or (isinstance(kernel, Polynomial) and kernel.degree == 1)
