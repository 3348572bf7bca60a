"""The table of parameters, and what is made of it: names, defaults and words are the same at every door."""

import inspect
import pickle
from dataclasses import fields

import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dkernel import Cells, Grids, KernelClassifier, KernelRegressor
from dkernel.data.encoding.encoding import MISSING_WORDS
from dkernel.errors import RecipeError
from dkernel.estimators.parameters import DOCUMENTED
from dkernel.features import FAST, FEATURES
from dkernel.features.landmarks import RULES
from dkernel.features.scaling import SCALINGS
from dkernel.kernels import GAMMA_WORDS, SAMPLINGS
from dkernel.losses.losses import LOSSES
from dkernel.model.local_settings import STAGES, machine_class
from dkernel.model.parameters import EFFORTS, PARAMETERS
from dkernel.model.recipe import Recipe
from dkernel.model.solver_table import SOLVERS
from dkernel.training.local_stages import LOCAL_STAGES
from tests.training.test_local_stage import rough

MACHINES = (KernelClassifier, KernelRegressor)
CATALOGUES = {
    "gamma": GAMMA_WORDS, "features": FEATURES, "landmarks": RULES,
    "sampling": ("auto", *SAMPLINGS, *FAST), "solver": SOLVERS, "scale": ("auto", *SCALINGS),
    "missing": MISSING_WORDS, "dates": ("calendar", "seconds"), "effort": EFFORTS, "loss": ("auto", *LOSSES),
    "local": ("auto", "none", *LOCAL_STAGES),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(CATALOGUES))
def test_the_words_are_those_of_the_catalogue(name):
    assert PARAMETERS[name].words == tuple(CATALOGUES[name])


def test_the_words_of_a_task_are_those_of_its_losses():
    words = PARAMETERS["loss"].of_task
    assert set(words["classify"]) == {"auto", *(name for name, loss in LOSSES.items() if loss.classifies)}
    assert set(words["regress"]) == {"auto", *(name for name, loss in LOSSES.items() if loss.regresses)}


def test_a_recipe_has_the_parameters_and_defaults_of_the_table():
    defaults = {f.name: f.default for f in fields(Recipe)}
    assert defaults == {name: p.default for name, p in PARAMETERS.items()}


@pytest.mark.parametrize("machine", MACHINES)
def test_a_signature_has_the_defaults_of_the_table(machine):
    signature = inspect.signature(machine).parameters
    assert {name: p.default for name, p in signature.items()} == {name: DOCUMENTED[name].default for name in signature}
    assert len(signature) == (29 if machine is KernelClassifier else 27)


@pytest.mark.parametrize("machine", MACHINES)
def test_a_docstring_has_the_sentences_of_the_table(machine):
    words = " ".join(machine.__doc__.split())
    for name in inspect.signature(machine).parameters:
        assert f"{name} : " in words
        assert DOCUMENTED[name].text in words


@pytest.mark.parametrize("stage", [Grids, Cells])
def test_settings_have_the_names_and_defaults_of_their_table(stage):
    assert {name: p.default for name, p in inspect.signature(stage).parameters.items()} == stage().get_params()
    assert stage().get_params() == {name: p.default for name, p in stage.table().items()}
    assert STAGES[stage.word] is LOCAL_STAGES[stage.word].settings is stage


def test_the_rooms_know_the_same_of_a_local_stage():
    assert STAGES.keys() == LOCAL_STAGES.keys()
    assert [machine_class(word).kind for word in STAGES] == list(STAGES)


@pytest.mark.parametrize(
    ("spellings", "text"),
    [
        (["grids", Grids(), "grids()", "grids( n_grids = 'auto' )", Grids("auto", "auto")], "grids"),
        (["grids(n_grids=64)", Grids(64), "grids(one_hot=auto, n_grids=64)"], "grids(n_grids=64)"),
        ([Grids(one_hot="a,b;c"), Grids(one_hot=[["a", "b"], ["c"]])], "grids(one_hot=(('a', 'b'), ('c',)))"),
        ([Cells(overlap=0, rows=64), "cells(rows=64, overlap=0.0)"], "cells(rows=64, overlap=0.0)"),
    ],
    ids=str,
)
def test_equal_settings_are_equal_recipes(spellings, text):
    recipes = [Recipe(local=each) for each in spellings]
    assert {recipe.local for recipe in recipes} == {text}
    assert len({recipe.digest for recipe in recipes}) == 1
    assert Recipe.from_dict(recipes[0].to_dict()) == recipes[0] == pickle.loads(pickle.dumps(recipes[0]))


def test_settings_are_parameters_of_the_estimator():
    machine = KernelClassifier(local=Grids(n_grids=64))
    assert machine.get_params()["local__n_grids"] == 64
    copy = clone(machine).set_params(local__n_grids=16)
    assert (machine.local, copy.local) == (Grids(64), Grids(16))
    assert pickle.loads(pickle.dumps(copy)).local == copy.local
    assert KernelClassifier(local="cells(rows=64)").set_params(local__overlap=0.25).local == Cells(64, 0.25)
    assert KernelClassifier().set_params(local="grids", local__n_grids=32).local == Grids(32)
    for wrong in ({"local__rows": 3}, {"local": "auto", "local__n_grids": 3}):
        with pytest.raises(RecipeError, match="has no setting"):
            clone(machine).set_params(**wrong)


def test_a_search_of_scikit_learn_has_settings_as_an_axis():
    X, y = rough(300)
    machine = KernelClassifier(features="none", local="grids", random_state=0)
    search = GridSearchCV(
        make_pipeline(StandardScaler(), machine), {"kernelclassifier__local__n_grids": [16, 32]}, cv=2
    )
    search.fit(X, y > 0)
    found = search.best_estimator_[-1]
    assert len(found.model_.local.bits) == search.best_params_["kernelclassifier__local__n_grids"]
    assert found.model_.recipe.local == f"grids(n_grids={found.local.n_grids})"
    assert machine.local == "grids"
