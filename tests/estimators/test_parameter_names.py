"""Names and values of parameters that an estimator does not have are answered by those that are possible."""

import inspect
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.base import clone

import dkernel
from dkernel.cli.train import RECIPE
from dkernel.data.collections.arrays import from_arrays
from dkernel.errors import RecipeError
from dkernel.estimators.parameters import UnknownParameterError
from tests.estimators.data import ESTIMATORS, ball


@pytest.mark.parametrize(
    ("estimator", "parameter", "words"),
    [
        (dkernel.KernelClassifier, "C", "KernelClassifier has no parameter 'C'. Use alpha='C=1'."),
        (dkernel.KernelClassifier, "n_jobs", "needs none"),
        (dkernel.KernelClassifier, "probability", "Use calibration."),
        (dkernel.KernelRegressor, "kernal", "Did you mean 'kernel'?"),
        (dkernel.KernelPCA, "n_columns", "Use n_map_components."),
        (dkernel.KernelKMeans, "n_columns", "Use n_map_components."),
        (dkernel.NystromFeatures, "n_landmarks", "Use n_components."),
        (dkernel.Tuner, "grid", "Use param_grid."),
    ],
)
def test_a_parameter_of_another_name_is_answered(estimator, parameter, words):
    with pytest.raises(UnknownParameterError) as found:
        estimator(**{parameter: 1})
    assert words in str(found.value)
    assert isinstance(found.value, TypeError)  # as Python says it


@pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda kind: kind.__name__)
def test_every_parameter_has_a_type(kind):
    parameters = [p for p in inspect.signature(kind.__init__).parameters.values() if p.name != "self"]
    assert [p.name for p in parameters if p.annotation is inspect.Parameter.empty] == []


def test_a_parameter_that_a_class_of_a_user_sets_otherwise_is_set_so():
    class Own(dkernel.KernelPCA):
        """A class whose parameter is a property."""

        gamma = property(lambda self: self._gamma, lambda self, value: setattr(self, "_gamma", value))

    assert clone(Own(gamma=0.5)).get_params()["gamma"] == 0.5


def test_the_signature_is_as_written_and_clones_are_equal():
    assert "n_components" in inspect.signature(dkernel.KernelClassifier).parameters
    machine = dkernel.KernelPCA(2, n_map_components=16)
    assert clone(machine).get_params() == machine.get_params()


@pytest.mark.parametrize("base", [dkernel.KernelClassifier, dkernel.KernelRegressor, dkernel.KernelPCA])
@pytest.mark.parametrize("doc", [None, "A class.\n\n    {its own}\n    {score: 0.93}\n    {features: few}\n    "])
def test_a_class_of_a_user_may_have_parameters_and_a_docstring_of_its_own(base, doc):
    def init(self, n_components=8, noise=0.1):
        base.__init__(self, n_components=n_components)
        self.noise = noise

    made = type("Own", (base,), {"__init__": init, "__doc__": doc})
    assert made.__doc__ == doc
    assert clone(made(noise=0.5)).get_params() == {"n_components": 8, "noise": 0.5}


@pytest.mark.parametrize("machine", [dkernel.KernelClassifier, dkernel.KernelRegressor])
def test_every_option_is_a_parameter_or_the_page_names_its_counterpart(machine):
    page = Path(dkernel.__file__).with_name("estimators").joinpath("README.md").read_text()
    parameters = inspect.signature(machine).parameters
    if machine is dkernel.KernelRegressor:
        parameters = {*parameters, "class_weight", "calibration"}  # of classes
    missing = [
        name
        for name in RECIPE
        if name not in parameters and f"`--{name.replace('_', '-')}`" not in page.replace(" VALUE", "")
    ]
    assert missing == []


def test_holdout_and_precision_are_those_that_were_asked_for():
    X = np.random.default_rng(0).normal(size=(400, 2))
    settings = {"gamma": 0.5, "n_components": 16, "metric": "identity", "alpha": 1e-4, "random_state": 0}
    machine = dkernel.KernelRegressor("gaussian", holdout=0.25, dtype="float64", **settings).fit(X, X[:, 0])
    assert machine.model_.facts["holdout"]["rows"] == 100
    assert machine.model_.recipe.dtype == "float64"
    assert machine.model_.recipe.solver == "psgd"  # few rows are solved exactly, unless a holdout is asked for


def test_a_source_of_another_precision_is_refused_with_what_to_do(tmp_path):
    pd.DataFrame({"a": np.arange(9.0), "y": np.arange(9.0)}).to_csv(tmp_path / "t.csv", index=False)
    source = dkernel.open_source(str(tmp_path / "t.csv"), label="y")
    with pytest.raises(dkernel.errors.DataError, match=r"Open it with dtype='float64'"):
        dkernel.KernelRegressor(dtype="float64").fit(source)


READING = [
    {"missing": "mean"},
    {"dates": "seconds"},
    {"formats": {"a": "%Y"}},
    {"categorical_features": ["a"]},
    {"categorical_features": None},
]


@pytest.mark.parametrize("reading", READING)
def test_what_says_how_columns_are_read_is_refused_with_a_source(reading):
    source = from_arrays(np.arange(9.0)[:, None], np.arange(9.0))
    with pytest.raises(dkernel.errors.DataError, match=rf"{next(iter(reading))}=.* a Source has its own reading"):
        dkernel.KernelRegressor(**reading).fit(source)


@pytest.mark.parametrize("reading", READING)
def test_and_says_how_those_of_a_stream_are_read(reading):
    stream = pa.table({"a": [str(2000 + i % 9) for i in range(90)], "b": np.arange(90.0), "y": np.arange(90.0)})
    text = next(iter(reading)) in ("formats", "categorical_features") and list(reading.values()) != [None]
    machine = dkernel.KernelRegressor("linear", **reading)
    machine.fit((stream if text else stream.drop_columns("a")).to_reader(), "y")
    assert machine.n_features_in_ == 1 + text


NO_NUMBER = {
    bool: ["no", 2, None],
    int: [True, np.True_, 1.5, "few", -1, None],
    float: [True, "few", np.nan, -1.0, None],
}
OF_THE_RUN = ("verbose", "warm_start")  # any value that is true or not


def of_another_kind():
    """Every parameter of every class whose default is a number or a truth value, with values that are none."""
    found = []
    for kind in ESTIMATORS:
        for p in inspect.signature(kind.__init__).parameters.values():
            values = NO_NUMBER.get(type(p.default), []) if p.name not in OF_THE_RUN else []
            values = [*values, 0] if type(p.default) is int and p.default else values
            found += [pytest.param(kind, p.name, v, id=f"{kind.__name__}-{p.name}-{v}") for v in values]
    return found


@pytest.mark.parametrize(("kind", "name", "value"), of_another_kind())
def test_a_value_of_another_kind_is_refused_by_its_name(kind, name, value):
    X, y = ball(40)
    with pytest.raises(RecipeError, match=rf"^{name}={re.escape(repr(value))} is not valid\. .*Possible: "):
        kind(**{name: value}).fit(X, X if kind is dkernel.KernelCCA else y)
