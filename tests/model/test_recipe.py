import dataclasses
import json
import pickle

import numpy as np
import pytest

from dkernel.errors import RecipeError
from dkernel.model.parameters import PARAMETERS
from dkernel.model.recipe import Recipe

EXAMPLES = [
    Recipe(),
    Recipe(task="classify", kernel="Gaussian(gamma=0.05)", n_components=2000),
    Recipe(task="regress", loss="squared", alpha=1e-7, holdout=0.0, seed=2**63, dtype="float64"),
    Recipe(class_weight={"b": 1.5, "a": 0.1 + 0.2}),
    Recipe(class_weight={True: 2.0, False: 1.0}),
    Recipe(class_weight={-1: 0.5, 1: 3, 2.5: 0.0}),
    Recipe(class_weight="balanced", gamma="median", features="fourier", scale="minmax"),
]


def from_text(text):
    return Recipe.from_dict(json.loads(text))


@pytest.mark.parametrize("recipe", EXAMPLES)
def test_reads_back_what_it_wrote(recipe):
    again = Recipe.from_dict(json.loads(json.dumps(recipe.to_dict())))
    assert again == recipe
    assert again.to_text() == recipe.to_text()
    assert from_text(recipe.to_text()).digest == recipe.digest
    assert pickle.loads(pickle.dumps(recipe)) == recipe
    assert hash(again) == hash(recipe)


def test_labels_keep_their_type():
    recipe = from_text(Recipe(class_weight={True: 2.0, False: 1.0}).to_text())
    assert [type(label) for label in recipe.class_weight] == [bool, bool]
    assert from_text(Recipe(class_weight={"1": 2.0}).to_text()).class_weight == {"1": 2.0}


def test_order_of_weights_and_numpy_scalars_do_not_matter():
    a = Recipe(class_weight={1: 2.0, 0: 1.0}, n_components=np.int64(64), gamma=np.float64(0.5))
    b = Recipe(class_weight={np.int64(0): 1, np.int64(1): 2}, n_components=64, gamma=0.5)
    assert a == b
    assert a.digest == b.digest
    assert type(a.n_components) is int


def test_the_caller_keeps_the_dictionary():
    weights = {0: 1.0, 1: 2.0}
    recipe = Recipe(class_weight=weights)
    weights[0] = 9.0
    assert recipe.class_weight == {0: 1.0, 1: 2.0}


def test_none_is_a_spelling_of_no_scale():
    assert Recipe(scale=None) == Recipe(scale="none")


def test_the_loss_of_numbers_is_squared_where_none_is_named():
    assert Recipe(task="regress") == Recipe(task="regress", loss="squared")


def test_different_recipes_have_different_digests():
    assert len({recipe.digest for recipe in EXAMPLES}) == len(EXAMPLES)


def test_cannot_be_changed_and_replace_makes_a_new_one():
    recipe = Recipe()
    with pytest.raises(dataclasses.FrozenInstanceError):
        recipe.seed = 1
    assert recipe.replace(seed=1).seed == 1
    assert recipe.seed == 0


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"task": "regress", "loss": "hinge"}, ["loss='hinge'", "Use loss='squared'"]),
        ({"task": "regress", "loss": "squared", "class_weight": "balanced"}, ["class_weight='balanced'"]),
    ],
)
def test_refuses_what_means_nothing(changes, words):
    with pytest.raises(RecipeError) as caught:
        Recipe(**changes)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("make", [Recipe().replace, lambda **c: Recipe.from_dict({**Recipe().to_dict(), **c})])
def test_unknown_names_get_the_nearest(make):
    with pytest.raises(RecipeError, match=r"no parameter 'n_component'. Did you mean 'n_components'?"):
        make(n_component=10)


@pytest.mark.parametrize("text", ['{"seed": 1.5}', '{"class_weight": [[[1], 2]]}', '{"alpha": NaN}'])
def test_refuses_texts_that_are_no_recipe(text):
    with pytest.raises(RecipeError):
        from_text(text)


def test_names_left_out_have_defaults():
    assert Recipe.from_dict({"seed": 3}) == Recipe(seed=3)


@pytest.mark.parametrize("name", sorted(PARAMETERS))
def test_every_word_is_taken(name):
    for word in PARAMETERS[name].words:
        changes = {"loss": "squared"} if word in ("regress", "normal", "pcg") else {}
        changes |= {"local": "grids"} if (name, word) == ("features", "none") else {}
        assert getattr(Recipe(**{name: word, **changes}), name) == word


def test_columns_that_a_kernel_names_are_found_in_the_data():
    recipe = Recipe(kernel="gaussian.on(['b']) + linear")
    found = recipe.for_columns(["a", "b"])
    assert found.kernel == "Gaussian(gamma='auto').on(['b'], at=[1]) + Linear()"
    assert found.for_columns(["x", "y"]) == found == from_text(found.to_text())
    plain = Recipe(kernel="rbf")
    assert plain.for_columns(["a"]) is plain
