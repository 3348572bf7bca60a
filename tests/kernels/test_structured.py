"""The kernels of dkernel/kernels/STRUCTURED.md beside definitions that list all parts, and what they refuse."""

import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

import dkernel
from dkernel import FunctionKernel
from dkernel.errors import DataError
from dkernel.features import NystromMap
from dkernel.kernels import Normalized

PAGE = Path(dkernel.__file__).parent / "kernels" / "STRUCTURED.md"
ROWS = {
    "mismatch": ["ACGT", "ACG", "TTTTT", "GACGTA", "AC"],
    "graph": ["C C O; 0-1 1-2", "C O C; 0-1 1-2", "C; ", "C C C; 0-1 1-2 2-0"],
    "all pairs": ["1 2 3", "3 2 1", "7", "1 1 1 2"],
    "equal positions": ["1 2 3", "3 2 1", "7", "1 1 1 2"],
    "subsequence": ["cat", "car", "dog", "cart", "c"],
    "tree": ["(S (NP I) (VP run))", "(S (NP I) (VP sit))", "(S (NP you) (VP (V see) (NP me)))", "(NP I)"],
}


@pytest.fixture(scope="module", autouse=True)
def page():
    """The names that the blocks of the page define, without its fits."""
    names = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        lines = [line for line in block.splitlines() if not line.startswith(("print(", "machine ="))]
        exec("\n".join(lines), names)
    return names


@pytest.mark.parametrize("name", ROWS)
def test_each_is_a_kernel_with_landmarks_in_the_same_algebra(name):
    kernel, rows = FunctionKernel(name), np.array(ROWS[name], dtype=object)
    K = kernel(rows)
    np.testing.assert_allclose(K, K.T, rtol=1e-12)
    assert np.linalg.eigvalsh(K)[0] > -1e-9 * K.max()
    both = Normalized(kernel) + 2 * kernel
    features = NystromMap(both, rows[:, None])(rows[:, None])
    np.testing.assert_allclose(features @ features.T, both(rows), atol=1e-6 * both(rows).max())


def test_subsequences_are_those_that_can_be_listed(page):
    def weights(text, n, decay):
        found = {}
        for places in combinations(range(len(text)), n):
            word = "".join(text[i] for i in places)
            found[word] = found.get(word, 0.0) + decay ** (places[-1] - places[0] + 1)
        return found

    for n in (1, 2, 3):
        for s, t in (("cata", "tactac"), ("aaa", "aa"), ("c", "cat")):
            a, b = weights(s, n, 0.5), weights(t, n, 0.5)
            assert page["subsequences"](s, t, n, 0.5) == pytest.approx(sum(v * b.get(u, 0.0) for u, v in a.items()))


def test_subset_trees_are_those_that_can_be_counted(page):
    tree = page["read_tree"]("(S (A a) (B b))")
    # Rooted at S with A and B each a leaf or expanded, 4; at A and at B one each.
    assert page["subset_trees"](tree, tree, 1.0) == 6


@pytest.mark.parametrize(
    ("name", "row"),
    [("mismatch", "XYZ"), ("graph", "C C"), ("graph", "C; 0-x"), ("tree", "(S (NP"), ("tree", "NP"), ("all pairs", "")],
)
def test_what_is_no_such_object_is_refused(name, row):
    with pytest.raises(DataError):
        FunctionKernel(name)([row])
