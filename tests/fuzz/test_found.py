"""What the fuzzers found, each as a plain test."""

import numpy as np
import pytest

from dkernel import KernelClassifier

ROWS = np.random.default_rng(0).standard_normal((300, 4)).astype(np.float32)


@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_a_tensor_sketch_of_waves_alone_is_their_fourier_map(scale):
    """A product whose factors all have a spectral law has one; the search for a sketch of it had no end."""
    y = np.sin(2 * ROWS[:, 0]) > 0
    kernel = f"{scale} * Gaussian(gamma=0.1) * Laplacian(gamma=0.2)"
    fits = [
        KernelClassifier(kernel, features=features, n_components=64, alpha=1e-6, metric="identity").fit(ROWS, y)
        for features in ("tensorsketch", "random")
    ]
    sketched, drawn = (fit.decision_function(ROWS) for fit in fits)
    np.testing.assert_array_equal(sketched, drawn)
