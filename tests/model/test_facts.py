"""Facts of a model file that mean nothing: whoever reads the file says so, by the typed error and no other."""

import copy
import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dkernel
from dkernel.errors import ModelFileError
from dkernel.model import model_file, tensor_file
from dkernel.model.facts import FACTS

ODD = [None, True, "text", "", -5, -0.5, 0, 1e308, 10**400, 2**53, [], [[]], [None], ["text"], [-1], {}, {"a": None}]
ODD += [{"a": {"b": [1]}}, {"rows": 1}, {"rows": "many", "accuracy": 1.0}, [[[[[[[[[[[1]]]]]]]]]]], "\x1b[31m\ud800"]
VIEWS = [[], ["--markdown"], ["--json"]]


def draw(kind):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3))
    y = X[:, 0] * X[:, 1]
    if kind == "two targets":
        return X, pd.DataFrame({"u": y, "v": X[:, 2]})
    return X, y if kind == "regression" else np.digitize(y, [-0.3, 0.3])


MACHINES = {
    "classes": lambda: dkernel.KernelClassifier(n_components=16, local="cells", passes=1).fit(*draw("classes")),
    "regression": lambda: dkernel.KernelRegressor(
        "gaussian", solver="normal", n_components=16, local="grids(n_grids=4)"
    ).fit(*draw("regression")),
    "two targets": lambda: dkernel.KernelRegressor("gaussian", n_components=16, local="none").fit(*draw("two targets")),
    "one class": lambda: dkernel.OneClassSVM(n_components=16).fit(draw("classes")[0]),
}


@pytest.fixture(scope="module", params=MACHINES)
def parts(request):
    """Document and tensors of a model."""
    model = MACHINES[request.param]().model_
    return model_file._to_document(model), model_file._collect_arrays(model)


def entries(found, at=()):
    """The way to each value of a document, tables and lists too; of a list the first stands for all."""
    for key, value in found.items() if isinstance(found, dict) else list(enumerate(found))[:1]:
        yield (*at, key)
        if isinstance(value, dict | list):
            yield from entries(value, (*at, key))


def seal(path, parts, way, value):
    document = copy.deepcopy(parts[0])
    inner = document
    for key in way[:-1]:
        inner = inner[key]
    inner[way[-1]] = value
    tensor_file.write_tensors(path, document, parts[1])


def check_readers(run, path):
    try:
        repr(dkernel.load(path)), dkernel.load(path).model_._repr_html_()
        loaded = True
    except ModelFileError:
        loaded = False
    for view in VIEWS:
        done = run("show", path, *view)
        assert done.exit_code in ((0,) if loaded else (0, 65)), (view, done.output)
        assert "should not happen" not in done.output
        assert done.exit_code or done.stdout


def test_a_document_without_meaning_is_refused_by_its_type(parts, run, tmp_path_factory):
    ways = sorted(set(entries(parts[0])), key=str)
    of_facts = [way for way in ways if way[0] == "facts" and len(way) > 1]
    assert len(of_facts) > 20 or "nu" in parts[0]["facts"]
    path = tmp_path_factory.mktemp("odd") / "m.safetensors"

    @settings(max_examples=40)
    @given(st.one_of(st.sampled_from(of_facts), st.sampled_from(ways)), st.sampled_from(ODD))
    def check(way, value):
        seal(path, parts, way, value)
        check_readers(run, path)

    check()


@pytest.mark.slow
def test_every_fact_by_every_odd_value(parts, run, tmp_path):
    for way in entries(parts[0]["facts"]):
        for value in ODD:
            seal(tmp_path / "m.safetensors", parts, ("facts", *way), value)
            check_readers(run, tmp_path / "m.safetensors")


def test_every_fact_of_a_fit_has_its_kind(parts):
    assert parts[0]["facts"].keys() <= FACTS.keys()
    assert json.loads(json.dumps(parts[0]["facts"])) == parts[0]["facts"]


@pytest.mark.parametrize(
    ("facts", "named"),
    [
        ({"rows": "many"}, "'rows' is 'many'"),
        ({"counts": [1, 2, 3, 4]}, "other than its 3 classes"),
        ({"holdout": {"loss": 0.5}}, "'holdout' is"),
        ({"nu": 0.5}, "'nu' stands alone"),
        ({"targets": ["u", 5]}, "'targets' is"),
        ({"newer": [[[[[[[[[1]]]]]]]]]}, "'newer' is"),
    ],
)
def test_the_refusal_names_the_fact(tmp_path, facts, named):
    from tests.model.test_model_file_damage import forge

    forge(tmp_path / "m", lambda document: document["facts"].update(facts))
    for read in (model_file.read_header, model_file.load_model):
        with pytest.raises(ModelFileError, match="m does not describe a model") as caught:
            read(tmp_path / "m")
        assert named in str(caught.value)
