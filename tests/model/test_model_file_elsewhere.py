"""A model file gives the same scores, bit for bit, wherever it is read: any model, a new process, workers."""

import hashlib
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dkernel.data.collections.arrays import from_arrays
from dkernel.features import Scaling
from dkernel.inference.score import write_scores
from dkernel.model.model_file import load_model, save
from tests.combinations import examples
from tests.model.test_model_file import CLASSES, a_model

ROWS = np.random.default_rng(1).normal(size=(300, 3)).astype(np.float32)

READ = """
import hashlib, sys
import numpy as np
from dkernel.model.model_file import load_model
X = np.random.default_rng(1).normal(size=(300, 3)).astype(np.float32)
print(hashlib.sha256(load_model(sys.argv[1]).scores(X).tobytes()).hexdigest())
"""


@given(
    classes=st.sampled_from(sorted(CLASSES)),
    features=st.sampled_from(["nystrom", "fourier"]),
    seed=st.integers(0, 10**6),
    names=st.lists(st.text(min_size=1, max_size=5), min_size=3, max_size=3, unique=True),
    turned=st.booleans(),
)
@examples(200)
def test_any_model_comes_back_to_the_bit(tmp_path_factory, classes, features, seed, names, turned):
    model = replace(a_model(classes, features, seed), columns=tuple(names))
    if turned:
        rotation = np.random.default_rng(seed).normal(size=(3, 3))
        old = model.scaling
        model = replace(model, scaling=Scaling(old.kind, old.shift, old.factor, rotation))
    file = tmp_path_factory.getbasetemp() / "any.safetensors"
    digest = save(model, file)
    again = load_model(file)
    assert again.scores(ROWS[:5]).tobytes() == model.scores(ROWS[:5]).tobytes()
    for name in ("coef", "intercept"):
        assert getattr(again, name).tobytes() == getattr(model, name).tobytes()
    for name in ("recipe", "columns", "label", "facts"):
        assert getattr(again, name) == getattr(model, name)
    found, expected = (None if each.classes is None else (each.classes.dtype, *each.classes) for each in (again, model))
    assert found == expected
    assert save(again, file) == digest


@pytest.mark.parametrize("features", ["nystrom", "fourier"])
def test_a_new_process_gives_the_same_scores(tmp_path, features):
    model = a_model("text", features)
    save(model, tmp_path / "m")
    told = subprocess.run([sys.executable, "-c", READ, str(tmp_path / "m")], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == hashlib.sha256(model.scores(ROWS).tobytes()).hexdigest()


@pytest.mark.cluster
@pytest.mark.filterwarnings("ignore::dkernel.errors.DriftWarning")  # this model was learned from other rows
def test_workers_give_the_same_scores(tmp_path, two_workers):
    model = a_model("text")
    save(model, tmp_path / "m")
    again = load_model(tmp_path / "m")
    rows = from_arrays(ROWS, columns=list(model.columns))
    write_scores(again, rows, tmp_path / "out.npy", two_workers, write=["score"])
    written = np.load(tmp_path / "out.npy")
    found = np.stack([written[name] for name in written.dtype.names], axis=1) if written.dtype.names else written
    assert found.astype(np.float32).tobytes() == model.scores(ROWS).tobytes()
