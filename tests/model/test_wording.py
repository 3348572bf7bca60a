"""A model in words."""

import pytest

from dkernel.model.wording import describe_model


@pytest.mark.parametrize(
    ("kernel", "more", "said"),
    [
        ("Linear()", {}, "linear model of 9 columns"),
        ("0.5 * Polynomial(degree=1, c=1.0)", {}, "linear model of 9 columns"),
        ("Linear() + Gaussian(gamma=1.0)", {}, "64 components of a kernel of Linear and Gaussian"),
        ("Gaussian(gamma=1.0) + 0.5 * Laplacian(gamma=2.0)", {}, "64 components of a kernel of Gaussian and Laplacian"),
        ("mine(3)", {}, "64 components of the kernel mine(3)"),
        ("Linear()", {"features": "none"}, "a constant"),
        ("Linear()", {"features": "none", "local": "cells"}, "5 local machines (cells)"),
    ],
)
def test_a_model_is_told_in_words(kernel, more, said):
    assert describe_model({"kernel": kernel, **more}, {"components": 64, "local": {"cells": 5}}, 9) == said
