"""Numbers of a fit that are not finite: rows pass the gate, and a square or a power of what they hold overflows."""

from typing import Any

import numpy as np

from dkernel.errors import DataError
from dkernel.kernels import Kernel

__all__ = ["check_finite"]


def check_finite(kernel: Kernel, what: str, *numbers: Any) -> None:
    """Refuse a fit whose numbers are not all finite.

    Parameters
    ----------
    what : of the fit they are, in the plural

    Raises
    ------
    DataError
        which names the kernel and what to do

    Examples
    --------
    >>> from dkernel.kernels import Gaussian
    >>> check_finite(Gaussian(), "coefficients", np.ones(3), 2.0)
    """
    if all(np.isfinite(each).all() for each in numbers):
        return
    raise DataError(
        f"The fit overflows: its {what} are not finite, because the values of {kernel!r} on these rows are too large. "
        "Scale the features (scale='standard'), leave out rows whose numbers are far larger than the others', or take "
        "a kernel that grows less: a lower degree, or a bounded one such as Gaussian()."
    )
