"""Validation sets, early stopping, callbacks, and what history_ says of rounds and of rows held out."""

import numpy as np
import pytest

import dkernel
from dkernel import KernelClassifier, KernelRegressor, errors
from dkernel.data.collections.arrays import from_arrays
from tests.estimators.data import SMALL, ball, lazily, wave

OTHERS = ball(500, seed=7)


def test_a_validation_set_judges_and_all_rows_are_learned_from():
    X, y = ball(2000)
    machine = KernelClassifier(**SMALL, passes=2).fit(*lazily(X, y), eval_set=OTHERS)
    rounds = [line for line in machine.history_ if "round" in line]
    judged = [line for line in machine.history_ if "holdout" in line]
    assert sum(line["rows"] for line in rounds) == 4000
    assert {line["rows"] for line in judged} == {500}
    assert machine.model_.facts["holdout"]["rows"] == 500
    assert machine.model_.facts["holdout"]["accuracy"] == pytest.approx(machine.score(*OTHERS))
    watched = [line for line in rounds if "holdout_loss" in line]
    per_pass = len(rounds) // 2
    assert len(watched) == 2 * (per_pass // 8)
    assert all(0.5 < line["holdout_accuracy"] <= 1 for line in watched)
    assert all({"loss", "accuracy"} <= set(line) for line in rounds)
    plain = KernelClassifier(**SMALL, passes=2).fit(*lazily(X, y))
    assert not np.array_equal(plain.component_coef_, machine.component_coef_)
    assert not any("holdout_loss" in line for line in plain.history_)


def test_it_may_be_weighted_lazy_or_a_source():
    X, y = ball(1200)
    fitted = [
        KernelClassifier(**SMALL).fit(*lazily(X, y), eval_set=validation).component_coef_
        for validation in (OTHERS, (*OTHERS, np.ones(500)), lazily(*OTHERS), from_arrays(*OTHERS))
    ]
    for coef in fitted[1:]:
        np.testing.assert_array_equal(coef, fitted[0])
    weight = np.where(OTHERS[1], 1.0, 0.0)
    machine = KernelClassifier(**SMALL).fit(X, y, eval_set=(*OTHERS, weight))
    assert machine.model_.facts["holdout"]["rows"] == weight.sum()
    assert machine.model_.recipe.solver == "psgd"
    number = KernelRegressor(**SMALL).fit(*wave(800), eval_set=wave(300, seed=3))
    assert number.model_.facts["holdout"]["rmse"] > 0


@pytest.mark.parametrize(
    ("validation", "message"),
    [
        (OTHERS[0], "tuple"),
        ((OTHERS[0], None), "requires y"),
        ((OTHERS[0][:, :2], OTHERS[1]), "2 features"),
        ((OTHERS[0], OTHERS[1].astype(int) + 5), "no row of the training had the label"),
        (from_arrays(OTHERS[0]), "no label"),
    ],
    ids=str,
)
def test_refusals(validation, message):
    X, y = ball(300)
    with pytest.raises(errors.DKernelError, match=message):
        KernelClassifier(**SMALL).fit(X, y.astype(int), eval_set=validation)


def test_the_best_of_the_passes_is_the_model():
    X, y = ball(1500)
    y ^= np.random.default_rng(0).random(1500) < 0.3  # noise, which many passes learn by heart
    settings = SMALL | {"n_components": 400, "alpha": 1e-9, "gamma": 3.0, "loss": "logistic"}
    machine = KernelClassifier(**settings, passes=5).fit(*lazily(X, y), eval_set=OTHERS)
    losses = [line["loss"] for line in machine.history_ if "holdout" in line and line["holdout"] != "start"]
    assert machine.model_.facts["holdout"]["loss"] == min(losses)
    assert losses[-1] > min(losses)


def test_a_stopped_fit_goes_on_with_its_eval_set(tmp_path):
    """A callback that raises is a stop like any other."""
    X, y = ball(1500)
    settings = SMALL | {"passes": 3}
    whole = KernelClassifier(**settings).fit(*lazily(X, y), eval_set=OTHERS)

    def stop(line):
        if line.get("pass") == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        KernelClassifier(**settings, checkpoint=tmp_path / "c", callbacks=[stop]).fit(*lazily(X, y), eval_set=OTHERS)
    resumed = KernelClassifier(**settings, checkpoint=tmp_path / "c").fit(*lazily(X, y), eval_set=OTHERS)
    np.testing.assert_array_equal(resumed.component_coef_, whole.component_coef_)
    with pytest.raises(errors.DKernelError):
        KernelClassifier(**settings, checkpoint=tmp_path / "c").fit(*lazily(X, y), eval_set=ball(400, seed=8))


def test_callbacks_hear_every_line_and_may_end_the_passes():
    X, y = ball(1500)
    heard = []
    machine = KernelClassifier(**SMALL, passes=2, callbacks=[heard.append]).fit(*lazily(X, y))
    assert heard == [line for line in machine.history_ if line.get("holdout") != "start"]
    same = KernelClassifier(**SMALL, passes=2).fit(*lazily(X, y))
    np.testing.assert_array_equal(machine.component_coef_, same.component_coef_)

    ended = KernelClassifier(**SMALL, passes=9, callbacks=[lambda line: line.get("round") == 5, heard.append])
    ended.fit(*lazily(X, y))
    assert [line["round"] for line in ended.history_ if "round" in line] == [1, 2, 3, 4, 5]
    assert ended.history_[-1]["holdout"] == "pass-0-0"
    assert ended.score(*OTHERS) > 0.8
    for solver in ("exact", "lbfgs"):
        heard.clear()
        exact = KernelClassifier(**SMALL | {"solver": solver}, callbacks=[heard.append]).fit(X, y)
        assert heard == exact.history_


def test_a_model_from_a_file_says_that_it_cannot_go_on(tmp_path):
    X, y = ball(300)
    machine = KernelClassifier(**SMALL).fit(X, y)
    dkernel.save(machine, tmp_path / "m.safetensors")
    again = dkernel.load(tmp_path / "m.safetensors")
    with pytest.raises(errors.UnsupportedError, match="no solver state"):
        again.model_.partial_fit(X, y)
    # The estimator begins a stream from the model, as it does after a fit.
    np.testing.assert_array_equal(again.partial_fit(X, y).predict(X), machine.partial_fit(X, y).predict(X))
