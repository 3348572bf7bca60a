"""What labels mean: the task, the targets, the weights of classes."""

import numpy as np
import pytest

from dkernel.errors import DataError, RecipeError
from dkernel.losses.losses import LOSSES
from dkernel.model.recipe import Recipe
from dkernel.solvers.targets import Targets, resolve_task

TASKS = {  # of a label: by a loss for numbers alone, for classes alone, and for both; None where it is refused
    "bool": ("regress", "classify", None),
    "int": ("regress", "classify", None),
    "float": ("regress", None, "regress"),
    "text": (None, "classify", "classify"),
}
REFUSED = "cannot be a regression target|Use loss='squared', or task='classify'|Say which: task='classify' or task="


@pytest.mark.parametrize("kind", TASKS)
@pytest.mark.parametrize("name", LOSSES)
def test_label_and_loss_say_the_task_where_it_is_not_given(name, kind):
    loss = LOSSES[name]
    expected = TASKS[kind][0 if not loss.classifies else 1 if not loss.regresses else 2]
    if expected is None:
        with pytest.raises((DataError, RecipeError), match=REFUSED):
            resolve_task(Recipe(loss=name), kind)
    else:
        assert resolve_task(Recipe(loss=name), kind) == expected


@pytest.mark.parametrize("wish", [{"task": "regress"}, {"task": "classify"}], ids=str)
@pytest.mark.parametrize("name", LOSSES)
def test_a_task_that_is_given_is_taken_or_refused(name, wish):
    task, loss = wish.get("task", "classify"), LOSSES[name]
    if loss.regresses if task == "regress" else loss.classifies:
        assert [resolve_task(Recipe(loss=name, **wish), kind) for kind in ("bool", "int", "float")] == [task] * 3
        return
    with pytest.raises(
        RecipeError, match="Use loss='squared'" if task == "regress" else "for classes|predicts classes"
    ):
        Recipe(loss=name, **wish)


def test_a_text_is_no_number():
    with pytest.raises(DataError, match="text, which cannot be a regression target"):
        resolve_task(Recipe(loss="squared", task="regress"), "text")


@pytest.mark.parametrize(
    "classes", [np.array(["a", "bb", "ccc"]), np.array([-3, 0, 9]), np.array([False, True]), np.array([0.5, 1.5])]
)
def test_codes_are_the_places_of_the_classes(classes):
    codes = np.random.default_rng(0).integers(len(classes), size=50)
    targets = Targets(classes)
    np.testing.assert_array_equal(targets.codes(classes[codes]), codes)
    Y = targets.of(classes[codes])
    assert Y.shape == (50, targets.outputs) == (50, 1 if len(classes) == 2 else 3)
    decided = (Y[:, 0] > 0).astype(int) if len(classes) == 2 else Y.argmax(axis=1)
    np.testing.assert_array_equal(decided, codes)


def test_text_may_be_wider_or_narrower_than_the_classes():
    targets = Targets(np.array(["a", "bb"]))
    assert targets.codes(np.array(["bb", "a"], dtype="<U9")).tolist() == [1, 0]
    assert targets.codes(np.array(["a"], dtype="<U1")).tolist() == [0]
    with pytest.raises(DataError, match="'bbb'"):
        targets.codes(np.array(["bbb"]))


@pytest.mark.parametrize("unseen", [-1, 5, 100])
def test_a_label_never_seen_is_refused_with_its_row_and_the_classes(unseen):
    with pytest.raises(DataError, match=rf"row 2 .*{unseen}.*classes are 0, 1, 9"):
        Targets(np.array([0, 1, 9])).codes(np.array([0, 1, unseen]))


def test_the_nearest_class_is_offered():
    with pytest.raises(DataError, match="Did you mean 'virginica'"):
        Targets(np.array(["setosa", "virginica"])).codes(np.array(["virginca"]))


@pytest.mark.parametrize(("classes", "y"), [(np.array(["a", "b"]), np.arange(2)), (np.arange(2), np.array(["0", "1"]))])
def test_text_and_numbers_are_not_compared(classes, y):
    with pytest.raises(DataError, match="text"):
        Targets(classes).codes(y)


def test_a_regression_is_centred_and_of_width_1():
    Y = Targets(None, center=100.0, width=4.0).of(np.array([100.0, 104.0, 92.0]))
    assert Y.dtype == np.float32
    assert Y.tolist() == [[0], [1], [-2]]


def test_balanced_weights_give_every_class_the_same_sum():
    targets, counts = Targets(np.array(["a", "b", "c"])), {"a": 10.0, "b": 30.0, "c": 60.0}
    weights = targets.weigh_classes("balanced", counts)
    np.testing.assert_allclose(weights * [10, 30, 60], 100 / 3)
    assert targets.weigh_classes(None, counts) is None


def test_weights_by_class():
    targets, counts = Targets(np.array([0, 1, 2])), {0: 1.0, 1: 1.0, 2: 1.0}
    assert targets.weigh_classes({2: 5.0}, counts).tolist() == [1.0, 1.0, 5.0]
    with pytest.raises(RecipeError, match="class_weight names 7, which is not a class; there are 0, 1, 2"):
        targets.weigh_classes({7: 1.0}, counts)
    with pytest.raises(RecipeError, match="gives all rows a weight of 0"):
        targets.weigh_classes({0: 0.0, 1: 0.0, 2: 0.0}, counts)


def test_a_regression_has_no_class_weights():
    assert Targets(None).weigh_classes("balanced", {}) is None
