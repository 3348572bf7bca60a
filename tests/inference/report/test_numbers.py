import numpy as np
import pytest
from sklearn.metrics import confusion_matrix, mean_absolute_error, r2_score, roc_auc_score

from dkernel.data import from_arrays
from dkernel.inference.report.numbers import calibration, judge, learning_curve, regions, spectrum, speed
from dkernel.model.recipe import Recipe
from dkernel.streaming.execution.local import SerialExecutor
from dkernel.training.fit import train


def fitted(y_of, holdout=0.3, **recipe):
    X = np.random.default_rng(0).normal(size=(1200, 2)).astype(np.float32)
    settings = {"kernel": "gaussian", "metric": "identity", "scale": "none", "n_components": 48, "gamma": 0.5}
    settings |= {"alpha": 1e-6, "holdout": holdout, "solver": "psgd"} | recipe
    return train(from_arrays(X, y_of(X)), Recipe(**settings), SerialExecutor())


@pytest.fixture(scope="module")
def two():
    return fitted(lambda X: np.where((X**2).sum(1) < 1.4, "in", "out"))


@pytest.fixture(scope="module")
def three():
    return fitted(lambda X: np.digitize(X[:, 0], [-0.5, 0.5]), loss="logistic")


@pytest.fixture(scope="module")
def smooth():
    return fitted(lambda X: np.sin(X[:, 0]) + X[:, 1], task="regress", loss="squared")


def test_two_classes_have_the_figures_that_scikit_learn_gives_them(two):
    found = judge(two.model, two.holdout)
    truth, scores = two.holdout.y, two.model.scores(two.holdout.X)[:, 0]
    assert found.merits["AUC"] == pytest.approx(roc_auc_score(truth == "out", scores), abs=1e-12)
    assert found.merits["accuracy"] == pytest.approx(two.model.facts["holdout"]["accuracy"], abs=0.01)
    assert found.confusion.tolist() == confusion_matrix(truth, two.model.predict(two.holdout.X)).tolist()
    assert [name for name, *_ in found.one_against_rest()] == ["out"]


def test_several_classes(three):
    found = judge(three.model, three.holdout)
    assert found.confusion.shape == (3, 3)
    assert "AUC" not in found.merits
    assert [name for name, *_ in found.one_against_rest()] == ["0", "1", "2"]
    bins, whose = calibration(three.model, found)
    assert whose == "P(predicted class)"
    assert bins[:, 2].sum() == len(three.holdout.X)
    assert (np.diff(bins[:, 0]) >= 0).all()
    assert np.average(bins[:, 1], weights=bins[:, 2]) == pytest.approx(found.merits["accuracy"])


def test_a_squared_hinge_score_is_twice_a_probability_less_one(two):
    bins, whose = calibration(two.model, judge(two.model, two.holdout))
    assert whose == "P(out)"
    assert np.abs(bins[:, 0] - bins[:, 1]).mean() < 0.12


def test_a_hinge_says_nothing_of_probabilities():
    hinge = fitted(lambda X: X[:, 0] > 0, loss="hinge", calibration="none")
    assert calibration(hinge.model, judge(hinge.model, hinge.holdout)) is None


def test_a_regression(smooth):
    found = judge(smooth.model, smooth.holdout)
    predicted = smooth.model.predict(smooth.holdout.X)
    assert found.merits["R²"] == pytest.approx(r2_score(smooth.holdout.y, predicted))
    assert found.merits["MAE"] == pytest.approx(mean_absolute_error(smooth.holdout.y, predicted), rel=1e-5)
    assert calibration(smooth.model, found) is None


def test_regions_are_the_answers_at_their_places(two, smooth):
    plane = regions(two.model, two.holdout, judge(two.model, two.holdout))
    left, right, bottom, top = plane.extent
    n = len(plane.values)
    row, column = n // 3, n // 2
    point = [left + column / (n - 1) * (right - left), bottom + row / (n - 1) * (top - bottom)]
    assert plane.values[row, column] == pytest.approx(two.model.scores(np.float32([point]))[0, 0], abs=1e-5)
    assert regions(smooth.model, smooth.holdout, judge(smooth.model, smooth.holdout)) is not None


def test_without_a_holdout_nothing_is_measured_and_the_map_is_still_known():
    result = fitted(lambda X: X[:, 0] > 0, holdout=0)
    assert result.holdout is None
    assert judge(result.model, None) is None
    values, what = spectrum(result.model, None)
    assert len(values) == 48
    assert "landmarks" in what
    fourier = fitted(lambda X: X[:, 0] > 0, holdout=0, features="fourier")
    assert len(spectrum(fourier.model, None)[0]) == 0


def test_the_spectrum_is_that_of_the_operator(two):
    values, _ = spectrum(two.model, two.holdout)
    assert values.sum() == pytest.approx(1.0)  # of a Gaussian kernel the diagonal is 1
    assert values == pytest.approx(np.maximum(two.model.map.eigenvalues(1), 0), abs=1e-9)
    rows = fitted(lambda X: X[:, 0] > 0, features="fourier")
    of_features, what = spectrum(rows.model, rows.holdout)
    assert "rows of the holdout" in what
    assert of_features.sum() == pytest.approx(1.0, abs=1e-3)


def test_the_learning_curve_counts_rows_and_the_alpha_path_is_kept(two):
    curve = learning_curve(two.history)
    assert curve.rounds[-1, 0] == sum(line["rows"] for line in two.history if "round" in line)
    assert curve.name == "accuracy"
    assert curve.holdout[0, 0] == 0
    path = fitted(lambda X: X[:, 0] > 0, alpha="auto", gamma=0.5)
    assert len(path.sample_path) == 7
    for line in path.history:
        if "holdout" in line:
            assert min(line["path"].values()) == pytest.approx(line["loss"])


def test_rows_a_second_of_each_round():
    trail = [("survey", 0, 0), ("survey", 1, 50), ("pass 1/2", 1, 0), ("pass 1/2", 3, 10), ("pass 1/2", 4, 40),
             ("pass 2/2", 4, 0), ("pass 2/2", 5, 25)]  # fmt: skip
    found = speed(trail)
    assert [(name, steps.tolist()) for name, steps in found] == [
        ("pass 1/2", [[3, 5], [4, 30]]),
        ("pass 2/2", [[5, 25]]),
    ]
