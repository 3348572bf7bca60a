import hashlib
import json
import os
from dataclasses import replace

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file

from dkernel import KernelRegressor
from dkernel.errors import ClusterError, ModelFileError
from dkernel.features import FourierMap, NystromMap, Scaling
from dkernel.kernels import parse
from dkernel.model import model_file
from dkernel.model.model import Model
from dkernel.model.model_file import MODEL_VERSION, compute_digest, load_model, read_header, save
from dkernel.model.recipe import Recipe

CLASSES = {
    "bool": np.array([False, True]),
    "int64": np.array([-(2**62), 3, 2**53 + 1]),
    "float64": np.array([-0.5, 0.1 + 0.2, 1e300]),
    "text": np.array(["", "an é", '"quoted"\n', "日本"]),
    "regression": None,
}


def a_model(classes="bool", features="nystrom", seed=0):
    rng = np.random.default_rng(seed)
    kernel, p = parse("Gaussian(gamma=0.3)"), 3
    if features == "nystrom":
        phi = NystromMap(kernel, rng.normal(size=(5, p)).astype(np.float32))
    else:
        phi = FourierMap.draw(kernel, n_in=p, n_components=6, seed=1)
    labels = CLASSES[classes]
    outputs = 1 if labels is None or len(labels) == 2 else len(labels)
    recipe = Recipe(
        solver="psgd", kernel=repr(kernel), gamma=0.3, n_components=phi.n_components, features=features, alpha=0.1 + 0.2
    )
    if labels is None:
        recipe = recipe.replace(task="regress", loss="squared")
    return Model(
        recipe=recipe,
        scaling=Scaling("standard", rng.normal(size=p), rng.uniform(1, 2, size=p)),
        map=phi,
        coef=rng.normal(size=(phi.n_components, outputs)),
        intercept=rng.normal(size=outputs),
        classes=labels,
        columns=("a", "b ü", 'c"'),
        label="target",
        facts={
            "rows": 10,
            "holdout": {"rows": 2, "accuracy": 0.1 + 0.2},
            "versions": {"dkernel": "0"},
            "of another": [1, None, True],
        },
    )


@pytest.fixture
def path(tmp_path):
    return tmp_path / "m.safetensors"


def test_equal_models_are_equal_files(tmp_path):
    first, second = tmp_path / "a", tmp_path / "b"
    digest = save(a_model(), first)
    model = a_model()
    save(replace(model, facts=dict(reversed(model.facts.items()))), second)
    assert first.read_bytes() == second.read_bytes()
    assert hashlib.sha256(first.read_bytes()).hexdigest() == digest
    save(load_model(first), second)
    assert first.read_bytes() == second.read_bytes()
    assert save(a_model(seed=1), second) != digest


def test_the_library_reads_it(path):
    model = a_model("int64")
    save(model, path)
    tensors = load_file(path)
    assert tensors["coef"].tobytes() == model.coef.tobytes()
    assert set(tensors) == {"coef", "intercept", "map.landmarks", "scaling.shift", "scaling.factor"}
    with safe_open(path, "numpy") as file:
        assert list(file.metadata()) == ["dkernel"]
        document = json.loads(file.metadata()["dkernel"])
    assert document == read_header(path)


def test_header_is_read_without_the_tensors(path, monkeypatch):
    save(a_model(), path)
    monkeypatch.setattr(model_file, "read_tensors", None)
    header = read_header(path)
    assert header["protocol"] == MODEL_VERSION
    assert header["classes"] == {"dtype": "bool", "values": [False, True]}
    assert Recipe.from_dict(header["recipe"]) == a_model().recipe


def test_an_estimator_is_saved_as_its_model(path):
    class Fitted:
        model_ = a_model()

    save(Fitted(), path)
    assert load_model(path).label == "target"
    with pytest.raises(ModelFileError, match="fitted"):
        save(object(), path)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_numbers_that_are_not_finite_are_not_saved(path, value):
    model = a_model()
    model.coef[2, 0] = value
    with pytest.raises(ModelFileError, match="'coef' has a value that is not finite"):
        save(model, path)
    assert os.listdir(path.parent) == []


@pytest.mark.parametrize("facts", [{"x": float("nan")}, {"x": object()}, {"x": {2: 1, 10: 2}}, {"x": {1: 1, "1": 2}}])
def test_facts_that_do_not_read_back_are_not_saved(path, facts):
    with pytest.raises(ModelFileError, match="cannot be written as JSON"):
        save(replace(a_model(), facts=facts), path)
    assert os.listdir(path.parent) == []


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_failed_write_leaves_the_old_file(path, monkeypatch, call):
    save(a_model(), path)
    old = path.read_bytes()

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(ClusterError, match=r"m\.safetensors: no room to write .No space"):
        save(a_model(seed=1), path)
    monkeypatch.undo()
    assert path.read_bytes() == old
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize("local", ["none", "grids", "cells"])
def test_the_digest_of_a_model_is_that_of_its_file(tmp_path, monkeypatch, local):
    X = np.random.default_rng(0).random((600, 2))
    machine = KernelRegressor(gamma=1.0, n_components=8, local=local).fit(X, X[:, 0])
    digest = save(machine, tmp_path / "model")
    assert digest == hashlib.sha256((tmp_path / "model").read_bytes()).hexdigest() == compute_digest(machine.model_)
    loaded = load_model(tmp_path / "model")
    monkeypatch.setattr(model_file, "_collect_arrays", None)  # reading has seen all bytes: nothing is packed again
    assert compute_digest(loaded) == digest


@pytest.mark.parametrize("local", ["grids", "cells"])
def test_the_names_of_arrays_are_those_of_the_arrays(local):
    X = np.random.default_rng(0).random((600, 2))
    machine = KernelRegressor(gamma=1.0, n_components=8, local=local).fit(X, X[:, 0]).model_.local
    assert machine.array_names() == machine.arrays().keys()
