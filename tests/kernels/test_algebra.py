"""What only the classes of the algebra know: their shape, and the text that says it."""

import pytest

from dkernel.errors import RecipeError
from dkernel.kernels import Gaussian, Linear, Polynomial, Product, Scaled, Sum, parse

A, B, C = Gaussian(gamma=0.5), Linear(), Polynomial()


def test_flat_however_it_is_made():
    assert Sum((Sum((A, B)), C)) == A + B + C == Sum((A, B, C))
    assert Product((A, Product((B, C)))) == A * B * C
    assert Scaled(2, Scaled(3, A)) == Scaled(6, A)
    assert (A + B).members == (A, B)


def test_a_long_sum_is_one_tuple():
    total = sum([A] * 800)
    assert len(total.kernels) == 800
    assert parse(repr(total)) == total


@pytest.mark.parametrize(
    "make",
    [
        lambda: Sum((A,)),
        lambda: Sum(()),
        lambda: Product((A,)),
        lambda: Sum((A, 2)),
        lambda: Product((A, "Linear()")),
        lambda: Scaled(2, 3),
        lambda: Scaled("2", A),
        lambda: Scaled(1e-300, Scaled(1e-300, A)),
    ],
)
def test_made_by_hand_they_are_checked_too(make):
    with pytest.raises(RecipeError):
        make()
