import hashlib
import json
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file

from dkernel import modelfile, tensorfile
from dkernel.errors import ModelFileError
from dkernel.features import FourierMap, NystromMap, Scaling
from dkernel.kernels import parse
from dkernel.model import Model
from dkernel.modelfile import PROTOCOL, load, read_header, save
from dkernel.recipe import Recipe

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
    recipe = Recipe(kernel=repr(kernel), gamma=0.3, n_components=phi.n_columns, features=features, alpha=0.1 + 0.2)
    if labels is None:
        recipe = recipe.replace(task="regress", loss="squared")
    return Model(
        recipe=recipe,
        scaling=Scaling("standard", rng.normal(size=p), rng.uniform(1, 2, size=p)),
        map=phi,
        coef=rng.normal(size=(phi.n_columns, outputs)),
        intercept=rng.normal(size=outputs),
        classes=labels,
        columns=("a", "b ü", 'c"'),
        label="target",
        facts={"rows": 10, "holdout": {"accuracy": 0.1 + 0.2}, "versions": {"dkernel": "0"}, "chosen": [1, None, True]},
    )


@pytest.fixture
def path(tmp_path):
    return tmp_path / "m.safetensors"


@pytest.mark.parametrize("classes", CLASSES)
@pytest.mark.parametrize("features", ["nystrom", "fourier"])
def test_round_trip_is_bitwise(path, classes, features):
    model = a_model(classes, features)
    save(model, path)
    again = load(path)
    for name in ("coef", "intercept"):
        assert getattr(again, name).tobytes() == getattr(model, name).tobytes()
    assert again.recipe == model.recipe
    assert (again.columns, again.label, again.facts) == (model.columns, model.label, model.facts)
    if model.classes is None:
        assert again.classes is None
    else:
        assert again.classes.dtype == model.classes.dtype
        assert again.classes.tolist() == model.classes.tolist()
    X = np.random.default_rng(1).normal(size=(7, 3)).astype(np.float32)
    assert again.scores(X).tobytes() == model.scores(X).tobytes()


def test_equal_models_are_equal_files(tmp_path):
    first, second = tmp_path / "a", tmp_path / "b"
    digest = save(a_model(), first)
    model = a_model()
    save(replace(model, facts=dict(reversed(model.facts.items()))), second)
    assert first.read_bytes() == second.read_bytes()
    assert hashlib.sha256(first.read_bytes()).hexdigest() == digest
    save(load(first), second)
    assert first.read_bytes() == second.read_bytes()
    assert save(a_model(seed=1), second) != digest


def test_the_library_reads_it_and_the_tensors_are_aligned(path):
    model = a_model("int64")
    save(model, path)
    tensors = load_file(path)
    assert tensors["coef"].tobytes() == model.coef.tobytes()
    assert set(tensors) == {"coef", "intercept", "map.landmarks", "scaling.shift", "scaling.factor"}
    with safe_open(path, "numpy") as file:
        assert list(file.metadata()) == ["dkernel"]
        document = json.loads(file.metadata()["dkernel"])
    assert document == read_header(path)
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    assert length % 8 == 0
    for name, entry in json.loads(raw[8 : 8 + length]).items():
        assert name == "__metadata__" or entry["data_offsets"][0] % np.dtype(tensors[name].dtype).itemsize == 0


def test_header_is_read_without_the_tensors(path, monkeypatch):
    save(a_model(), path)
    monkeypatch.setattr(modelfile, "read_tensors", None)
    header = read_header(path)
    assert header["protocol"] == PROTOCOL
    assert header["classes"] == {"dtype": "bool", "values": [False, True]}
    assert Recipe.from_dict(header["recipe"]) == a_model().recipe


def test_an_estimator_is_saved_as_its_model(path):
    class Fitted:
        model_ = a_model()

    save(Fitted(), path)
    assert load(path).label == "target"
    with pytest.raises(ModelFileError, match="fitted"):
        save(object(), path)


# ------------------------------------------------------------------------------------- damaged and hostile files


def test_truncation_at_every_byte_is_refused(path):
    save(a_model(), path)
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(ModelFileError):
            load(path)


def test_every_mutation_is_refused(path):
    save(a_model(), path)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    tried = 0
    while tried < 2000:
        wrong = bytearray(whole)
        place = int(rng.integers(len(wrong)))
        kind = tried % 4
        if kind == 0:
            wrong[place] ^= 1 << int(rng.integers(8))
        elif kind == 1:
            wrong[place] = int(rng.integers(256))
        elif kind == 2:
            del wrong[place : place + int(rng.integers(1, 9))]
        else:
            wrong[place:place] = rng.bytes(int(rng.integers(1, 9)))
        if bytes(wrong) == whole:
            continue
        tried += 1
        path.write_bytes(wrong)
        with pytest.raises(ModelFileError):
            load(path)


def forge(path, change, **tensors):
    """A file whose checksums hold and whose document or tensors are not a model's."""
    model = a_model("int64")
    document = modelfile._document_of(model)
    change(document)
    arrays = {**modelfile._arrays_of(model), **tensors}
    tensorfile.write_tensors(path, document, {name: array for name, array in arrays.items() if array is not None})


FORGED = {
    "seed of the wrong type": lambda d: d["recipe"].update(seed="0"),
    "unknown parameter": lambda d: d["recipe"].update(workers=4),
    "parameter missing": lambda d: d["recipe"].pop("seed"),
    "number spelled otherwise": lambda d: d["recipe"].update(passes=True),
    "recipe no table": lambda d: d.update(recipe=[]),
    "kernel that is code": lambda d: d["recipe"].update(kernel="__import__('os').getcwd()"),
    "map's kernel that is code": lambda d: d["map"].update(kernel="__import__('os').getcwd()"),
    "unknown map": lambda d: d["map"].update(kind="os.system"),
    "map no table": lambda d: d.update(map=3),
    "part missing": lambda d: d.pop("facts"),
    "part too many": lambda d: d.update(code="print()"),
    "classes twice": lambda d: d["classes"].update(values=[1, 1, 2]),
    "classes too few": lambda d: d["classes"].update(values=[1]),
    "classes of another type": lambda d: d["classes"].update(values=[1, 2.5, 3]),
    "classes as objects": lambda d: d["classes"].update(dtype="object"),
    "classes longer than said": lambda d: d.update(classes={"dtype": "<U1", "values": ["ab", "b", "c"]}),
    "classes nested": lambda d: d["classes"].update(values=[[1], [2], [3]]),
    "classes no table": lambda d: d.update(classes=[1, 2, 3]),
    "a column too few": lambda d: d["columns"].pop(),
    "columns of numbers": lambda d: d.update(columns=[1, 2, 3]),
    "label missing": lambda d: d.update(label=None),
    "scaling no table": lambda d: d.update(scaling=[]),
    "protocol 0": lambda d: d.update(protocol=0),
    "protocol true": lambda d: d.update(protocol=True),
}


@pytest.mark.parametrize("name", FORGED)
def test_forged_documents_are_refused(path, name):
    forge(path, FORGED[name])
    with pytest.raises(ModelFileError):
        load(path)


def test_the_forge_itself_makes_models(path):
    forge(path, dict.copy)
    assert load(path).label == "target"


@pytest.mark.parametrize(
    "tensors",
    [
        {"coef": None},
        {"intercept": np.zeros(2)},
        {"coef": np.zeros((4, 3))},
        {"coef": np.zeros((5, 3), np.float32)},
        {"scaling.shift": np.zeros(4)},
        {"scaling.factor": None},
        {"map.landmarks": None},
        {"map.landmarks": np.zeros((5, 4), np.float32)},
        {"map.more": np.zeros(1)},
        {"spare": np.zeros(1)},
    ],
)
def test_forged_tensors_are_refused(path, tensors):
    forge(path, dict.copy, **tensors)
    with pytest.raises(ModelFileError):
        load(path)


def test_a_newer_protocol_says_so(path):
    forge(path, lambda d: d.update(protocol=PROTOCOL + 1))
    for read in (load, read_header):
        with pytest.raises(ModelFileError, match="made by a newer dkernel"):
            read(path)


def raw_file(header, tensors=b""):
    return len(header).to_bytes(8, "little") + header + tensors


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x80\x04\x95",
        raw_file(b"{}"),
        raw_file(b"[]"),
        raw_file(b'{"__metadata__": {"dkernel": "1"}}'),
        raw_file(b'{"__metadata__": {"dkernel": "{}"}}'),
        raw_file(b'{"__metadata__": {"dkernel": "{\\"protocol\\": NaN}"}}'),
        raw_file(b'{"__metadata__": {"dkernel": "{\\"protocol\\": 1, \\"tensors\\": {}}"}}'),
        raw_file(b'{"__metadata__": {"dkernel": "' + b"[" * 100_000 + b'"}}'),
        raw_file(b"[" * 100_000),
        raw_file(b"\xff\xfe"),
        raw_file(b'{"__metadata__": {"dkernel": "' + b"9" * 10_000 + b'"}}'),
        (2**63).to_bytes(8, "little") + b"{}",
        (100_000_001).to_bytes(8, "little") + b"{}",
    ],
)
def test_other_files_are_refused(path, content):
    path.write_bytes(content)
    for read in (load, read_header):
        with pytest.raises(ModelFileError):
            read(path)


def test_a_header_over_the_limit_is_not_read(path):
    with open(path, "wb") as file:
        file.write((100_000_008).to_bytes(8, "little"))
        file.truncate(100_000_100)
    with pytest.raises(ModelFileError, match="header that fits"):
        load(path)


def test_missing_and_folder_are_said(tmp_path):
    with pytest.raises(ModelFileError, match="does not exist"):
        load(tmp_path / "none")
    with pytest.raises(ModelFileError, match="is not a file"):
        load(tmp_path)


# ------------------------------------------------------------------------------------------------- writing


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
    with pytest.raises(OSError, match="No space"):
        save(a_model(seed=1), path)
    monkeypatch.undo()
    assert path.read_bytes() == old
    assert os.listdir(path.parent) == [path.name]


def test_loading_imports_nothing_that_can_run_code(path):
    save(a_model(), path)
    script = (
        "import sys\nfrom dkernel.modelfile import load\nbefore = set(sys.modules)\nload(sys.argv[1])\n"
        "new = {name.split('.')[0] for name in set(sys.modules) - before}\n"
        "assert not new & {'pickle', 'joblib', 'cloudpickle', 'dill'}, new\n"
    )
    subprocess.run([sys.executable, "-c", script, str(path)], check=True)
