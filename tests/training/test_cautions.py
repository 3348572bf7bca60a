"""The caution of a column that alone says the label, beside strong columns that do not."""

import numpy as np
import pytest

from dkernel.training.cautions import _says_label

RNG = np.random.default_rng(0)
N = 4096
RARE = RNG.random(N) < 0.02
HALF = RNG.random(N) < 0.5
NUMBER = RNG.normal(size=N)
SAID = {
    "a threshold": (NUMBER, NUMBER > 1, True),
    "four values, one label each": (np.where(HALF, RNG.integers(1, 4, N), 0), HALF, True),
    "the same of a rare class": (np.where(RARE, RNG.integers(1, 4, N), 0), RARE, True),
    "filled for one in two hundred of the others too": (np.where(HALF | (RNG.random(N) < 0.005), 1, 0), HALF, True),
    "700 values of one label each": (pages := RNG.integers(0, 700, N), pages % 7, True),
    "a curve of the label": (NUMBER, np.exp(NUMBER) + 0.01 * RNG.normal(size=N), False),
}
NOT_SAID = {
    "a label that nine tenths of a value have": (np.where(HALF ^ (RNG.random(N) < 0.1), 1, 0), HALF, True),
    "numbers of rows": (RNG.permutation(N), HALF, True),
    "rows that are there twice": (np.where(RARE, 0.5, NUMBER), HALF & ~RARE, True),
    "nine tenths of the variance": (NUMBER, NUMBER + 0.33 * RNG.normal(size=N), False),
    "a class of three rows": (NUMBER, np.arange(N) < 3, True),
}


@pytest.mark.parametrize("case", SAID)
def test_a_column_that_says_the_label_is_told_of(case):
    x, y, classes = SAID[case]
    assert _says_label(x.astype(np.float32)[:, None], y, classes)


@pytest.mark.parametrize("case", NOT_SAID)
def test_a_strong_column_is_not(case):
    x, y, classes = NOT_SAID[case]
    assert not _says_label(x.astype(np.float32)[:, None], y, classes)


def test_no_column_of_chance_says_a_label_of_few_rows():
    X = RNG.normal(size=(100, 2000)).astype(np.float32)
    y = RNG.random(100) < 0.5
    assert not any(
        _says_label(X[:, [j]], y, True) or _says_label(X[:, [j]], X[:, 0] + y, False) for j in range(1, 2000)
    )
