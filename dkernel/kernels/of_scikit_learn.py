"""What to write here for a kernel of scikit-learn's Gaussian processes, which is an object of another library."""

from typing import Any

import numpy as np

_TEXTS = {
    "RBF": "Gaussian(sigma={length_scale})",
    "Matern": "Matern(nu={nu}, length={length_scale})",
    "RationalQuadratic": "RationalQuadratic(alpha={alpha}, length={length_scale})",
    "Product": "{k1} * {k2}",
    "Sum": "({k1} + {k2})",
}
"""Class there -> the text here, of its parameters."""


def explain_kernel(kernel: Any) -> str:
    """The advice for an object of `sklearn.gaussian_process.kernels`.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF, WhiteKernel
    >>> explain_kernel(0.5 * RBF(2.0))
    "Write '0.5 * Gaussian(sigma=2.0)'."
    """
    text = _translate(kernel)
    return "A kernel is a text, or one of dkernel.kernels." if text is None else f"Write {text!r}."


def _translate(kernel: Any) -> str | None:
    """The text of the kernel here with the same values; None where there is none."""
    name, known = type(kernel).__name__, kernel.get_params(deep=False)
    if name == "DotProduct":
        return f"Polynomial(degree=1, c={float(kernel.sigma_0) ** 2})"
    if name not in _TEXTS or (name != "RBF" and np.ndim(known.get("length_scale", 0.0))):
        return None
    parts: dict[str, Any] = {}
    for key, value in known.items():
        factor = name == "Product" and type(value).__name__ == "ConstantKernel"
        if hasattr(value, "get_params"):
            parts[key] = float(value.constant_value) if factor else _translate(value)
        else:
            parts[key] = np.asarray(value).tolist()
    return None if None in parts.values() else _TEXTS[name].format_map(parts)
