"""Scorers by name: the mean of the rows' values is scikit-learn's figure, and their spread its standard error."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import average_precision_score, get_scorer, roc_auc_score

from dkernel.losses.losses import parse_loss
from dkernel.losses.metrics import class_of_scores
from dkernel.losses.scoring import SCORERS, judging_rows
from dkernel.model.parameters import PARAMETERS

RNG = np.random.default_rng(0)


class Known(ClassifierMixin, RegressorMixin, BaseEstimator):
    """An estimator whose scores of the rows are the rows."""

    def __init__(self, classes):
        self.classes_ = np.arange(classes)

    def __sklearn_tags__(self):
        kind = ClassifierMixin if len(self.classes_) else RegressorMixin
        return kind.__sklearn_tags__(self)

    def predict(self, S):
        return S[:, 0] if not len(self.classes_) else class_of_scores(S)

    def decision_function(self, S):
        return S[:, 0] if S.shape[1] == 1 else S

    def predict_proba(self, S):
        return parse_loss("softmax").of(S.shape[1]).class_probabilities(S)


def case(name, outputs, n=500):
    """Targets, scores, labels and the number of classes."""
    if not SCORERS[name].classes:
        y = RNG.normal(size=(n, 1))
        return y, y + RNG.normal(size=(n, 1)), y[:, 0], 0
    codes = RNG.choice(max(outputs, 2), n, p=[0.2, 0.8] if outputs == 1 else None)
    Y = np.where(codes[:, None] == ([1] if outputs == 1 else np.arange(outputs)), 1.0, -1.0)
    return Y, np.round(0.5 * Y + RNG.normal(size=Y.shape), 1), codes, max(outputs, 2)


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("name", SCORERS)
def test_the_mean_is_the_figure_of_scikit_learn(name, outputs):
    Y, S, labels, classes = case(name, outputs)
    one = {"roc_auc": roc_auc_score, "average_precision": average_precision_score}.get(name)
    if outputs == 3 and one is not None:  # scikit-learn's of several classes ranks probabilities
        expected = np.mean([one(labels == j, S[:, j]) for j in range(3)])
    else:
        expected = get_scorer(name)(Known(classes), S, labels)
    loss = parse_loss("softmax" if classes else "squared").of(Y.shape[1]).judged_by(name)
    values = loss.judging_value(Y, S).sum(axis=1)
    assert SCORERS[name].score(values.mean()) == pytest.approx(expected)


@pytest.mark.parametrize("name", ["roc_auc", "average_precision", "balanced_accuracy"])
def test_the_spread_is_that_of_other_draws(name):
    def mean_and_error():
        Y, S, *_ = case(name, 1, 400)
        values = judging_rows(name, Y, S, np.abs)[:, 0]
        return values.mean(), values.std() / 20

    means, errors = np.transpose([mean_and_error() for _ in range(200)])
    assert errors.mean() == pytest.approx(means.std(), rel=0.25)


def test_one_class_alone_has_no_ranking():
    Y, S = np.ones((9, 1)), RNG.normal(size=(9, 1))
    assert judging_rows("roc_auc", Y, S, np.abs).sum() == 0.0


def test_the_words_of_the_parameter_are_those_of_the_table():
    assert set(PARAMETERS["scoring"].words) == {"loss", *SCORERS}
