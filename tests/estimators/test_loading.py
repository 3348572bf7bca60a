"""`dkernel.load` gives the estimator that was saved, for every kind of rows."""

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import dkernel
from dkernel import KernelClassifier, KernelRegressor

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(RNG.normal(size=(200, 3)), columns=["a", "b", "c"])
LABEL = pd.Series(np.where(FRAME["a"] * FRAME["b"] > 0, "same", "other"), name="sign")


@pytest.fixture
def there(tmp_path):
    machine = KernelClassifier(loss="logistic", n_components=32, random_state=3).fit(FRAME, LABEL)
    dkernel.save(machine, tmp_path / "m")
    return machine, dkernel.load(tmp_path / "m")


def test_a_loaded_model_predicts_frames_arrays_and_lists_as_before(there):
    machine, again = there
    np.testing.assert_array_equal(again.predict(FRAME), machine.predict(FRAME))
    np.testing.assert_array_equal(again.predict_proba(FRAME), machine.predict_proba(FRAME))
    assert again.score(FRAME, LABEL) == machine.score(FRAME, LABEL)
    with pytest.warns(UserWarning, match="feature names"):
        np.testing.assert_array_equal(again.predict(FRAME.to_numpy().tolist()), machine.predict(FRAME))
    assert again.feature_names_in_.tolist() == ["a", "b", "c"]
    assert again.classes_.tolist() == ["other", "same"]


def test_save_and_clone_know_the_estimator(there, tmp_path):
    machine, again = there
    dkernel.save(again, tmp_path / "b")
    assert (tmp_path / "m").read_bytes() == (tmp_path / "b").read_bytes()
    assert clone(again).get_params()["loss"] == "logistic"
    assert again.get_params()["random_state"] == 3
    assert again.n_components_ == machine.n_components_


def test_regressions(tmp_path):
    X = FRAME.to_numpy()
    y = np.stack([X[:, 0], X[:, 1] ** 2], axis=1)
    machine = KernelRegressor(n_components=32).fit(X, y)
    dkernel.save(machine, tmp_path / "r")
    again = dkernel.load(tmp_path / "r")
    assert isinstance(again, KernelRegressor)
    np.testing.assert_array_equal(again.predict(da.from_array(X, chunks=(50, 3))).compute(), machine.predict(X))


def test_what_cannot_be_saved_is_told_what_can(tmp_path):
    with pytest.raises(dkernel.errors.ModelFileError, match=r"KernelClassifier.*OneClassSVM"):
        dkernel.save(dkernel.KernelPCA(), tmp_path / "m")
