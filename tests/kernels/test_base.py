"""The gate of every kernel, its operators, and what it says when something does not go together."""

from dataclasses import FrozenInstanceError, dataclass

import numpy as np
import pytest

from dkernel.errors import DataError, RecipeError, UnsupportedError
from dkernel.kernels import (
    ArcCosine,
    Exp,
    Gaussian,
    Kernel,
    Laplacian,
    Linear,
    Normalized,
    Polynomial,
    PowerSeries,
    Weighted,
    base,
)
from dkernel.numerics.random_streams import stream

X = np.random.default_rng(0).standard_normal((30, 4))


@dataclass(frozen=True)
class Minimum(Kernel):
    """A user's kernel with nothing but its values: the least of two numbers, on one column."""

    def _values(self, X, Z):
        return np.minimum.outer(X[:, 0], Z[:, 0])

    def _diag(self, X):
        return X[:, 0].copy()


def test_a_kernel_needs_nothing_but_its_values():
    k = 2 * Minimum() + Gaussian(gamma=1)
    Z = np.abs(X[:8]).astype(np.float32)
    out = np.empty((30, 8), np.float32)
    columns = k.columns(Z)
    columns.fill(columns.rows(X.astype(np.float32)), 0, out)
    np.testing.assert_allclose(out, k(X, Z.astype(float)), atol=3e-6)
    with pytest.raises(UnsupportedError, match="nystrom"):
        Minimum().frequencies(1, 4, stream(0, "t"))


def test_float32_is_evaluated_in_strips(monkeypatch):
    whole = Gaussian(gamma=0.3)(X.astype(np.float32))
    monkeypatch.setattr(base, "FLOAT64_VALUES", 7 * 30)
    strips = Gaussian(gamma=0.3)(X.astype(np.float32))
    assert strips.dtype == np.float32
    np.testing.assert_allclose(strips, whole, atol=1e-7)


def test_the_type_follows_the_first_block():
    k = Gaussian(gamma=0.3)
    assert k(X.astype(np.float32), X).dtype == np.float32
    assert k(X, X.astype(np.float32)).dtype == np.float64
    assert k(np.arange(6).reshape(3, 2)).dtype == np.float64
    assert k([[1, 2], [3, 4]]).dtype == np.float64


@pytest.mark.parametrize(
    ("blocks", "says"),
    [
        ((X, X[:, :3]), "4 and of 3 columns"),
        ((X[0],), "1 dimension"),
        ((X, X[None]), "3 dimension"),
        ((np.array([["a", "b"]]),), "type <U1"),
        ((X.astype(object),), "type object"),
        ((X + 1j,), "complex128"),
    ],
)
def test_blocks_that_do_not_fit(blocks, says):
    with pytest.raises(DataError, match=says):
        Linear()(*blocks)


def test_no_landmarks():
    with pytest.raises(DataError, match="at least one row"):
        Gaussian(gamma=1).columns(X[:0])


def test_a_word_must_be_bound_first():
    k = Linear() + Gaussian(gamma="median") * Laplacian()
    assert k.placeholders == ("median", "auto")
    uses = [
        lambda: k(X),
        lambda: k.diag(X),
        lambda: k.columns(X),
        lambda: k.frequencies(4, 8, stream(0, "t")),
        lambda: Gaussian().frequencies(4, 8, stream(0, "t")),
    ]
    for use in uses:
        with pytest.raises(RecipeError, match=r"bind\(rule\)"):
            use()


def test_bind_asks_for_the_metric_and_the_word():
    k = Linear() + 2 * (Gaussian(gamma="median") * Laplacian()) + Gaussian(gamma=3)
    asked = []

    def rule(metric, word):
        asked.append((metric, word))
        return np.float64(0.25)

    bound = k.bind(rule)
    assert asked == [("l2", "median"), ("l1", "auto")]
    assert bound == Linear() + 2 * (Gaussian(gamma=0.25) * Laplacian(gamma=0.25)) + Gaussian(gamma=3)
    assert k.placeholders == ("median", "auto")
    assert "np.float64" not in repr(bound)


def test_bind_refuses_what_is_no_gamma():
    with pytest.raises(RecipeError, match="above 0"):
        Gaussian().bind(lambda *_: 0.0)
    with pytest.raises(RecipeError, match="finite number"):
        Gaussian().bind(lambda *_: "auto")


def test_kernels_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        Gaussian(gamma=1).gamma = 2


@pytest.mark.parametrize(
    "make",
    [
        lambda k: -1 * k,
        lambda k: k * -0.5,
        lambda k: -k,
        lambda k: k - k,
        lambda k: np.float64(-2) * k,
    ],
)
def test_negative_weights_are_refused_with_the_reason(make):
    with pytest.raises(RecipeError, match="positive semi-definite"):
        make(Gaussian(gamma=1))


@pytest.mark.parametrize("weight", [0, float("nan"), float("inf"), 10**400])
def test_other_weights_are_refused(weight):
    with pytest.raises(RecipeError, match="above 0"):
        weight * Linear()


def test_numbers_multiply_and_do_not_add():
    assert np.float32(2) * Linear() == 2 * Linear()
    assert np.int64(2) * Linear() == Linear() * 2
    with pytest.raises(RecipeError, match="adds a number"):
        Linear() + 1
    with pytest.raises(RecipeError, match="adds a number"):
        1 + Linear()
    for foreign in ("2", None, True, X):
        with pytest.raises(TypeError):
            Linear() * foreign
        with pytest.raises(TypeError):
            Linear() + foreign


def test_shift_invariant():
    gaussian, laplacian = Gaussian(gamma=1), Laplacian()
    beside = gaussian.on([0]) * laplacian.on([1])
    assert all(k.shift_invariant for k in (gaussian, laplacian, gaussian * laplacian, 2 * gaussian + laplacian, beside))
    others = Linear(), Polynomial(), gaussian * Linear(), Linear() + gaussian, Weighted(gaussian, np.ones_like)
    assert not any(k.shift_invariant for k in others)


@pytest.mark.parametrize(
    "k",
    [
        *(Linear(), Polynomial(), Gaussian(gamma=1) + Gaussian(gamma=2), 2 * Gaussian(gamma=1), Exp(Gaussian(gamma=1))),
        *(Normalized(Linear()), PowerSeries(Gaussian(gamma=1), [0, 1]), ArcCosine(), Linear().on(0)),
    ],
    ids=repr,
)
def test_no_frequencies(k):
    for kernel in (k, k * Gaussian(gamma=1)):
        with pytest.raises(UnsupportedError, match="features='nystrom'"):
            kernel.frequencies(3, 8, stream(0, "t"))
