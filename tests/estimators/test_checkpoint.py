"""Estimators with a checkpoint: a fit that was stopped goes on when `fit` is called again."""

import numpy as np
import pytest

import dkernel
from dkernel import KernelClassifier, KernelRegressor
from dkernel.errors import DataError, RecipeError
from dkernel.training.checkpoint import FolderJournal
from tests.streaming.sources import rings, waves

SMALL = {"kernel": "gaussian", "metric": "identity", "n_components": 16, "gamma": 0.15, "alpha": 1e-6, "solver": "psgd"}


@pytest.mark.parametrize(("kind", "data"), [(KernelClassifier, rings), (KernelRegressor, waves)])
def test_fit_goes_on(kind, data, tmp_path, monkeypatch):
    X, y = data(1200)
    dkernel.save(kind(**SMALL).fit(X, y), tmp_path / "whole")
    reached = FolderJournal.save_state

    def interrupted(self, name, state):
        reached(self, name, state)
        if state.steps == 9:
            raise KeyboardInterrupt

    machine = kind(**SMALL, checkpoint=str(tmp_path / "c"))
    with monkeypatch.context() as patch:
        patch.setattr(FolderJournal, "save_state", interrupted)
        with pytest.raises(KeyboardInterrupt):
            machine.fit(X, y)
    assert (tmp_path / "c" / "checkpoint-rounds-00000009.safetensors").exists()
    dkernel.save(machine.fit(X, y), tmp_path / "resumed")
    assert (tmp_path / "whole").read_bytes() == (tmp_path / "resumed").read_bytes()
    with pytest.raises(DataError, match="the data differ"):
        machine.fit(X + np.float32(1), y)
    with pytest.raises(RecipeError, match=r"alpha was 1e-06 and is 0\.01"):
        machine.set_params(alpha=0.01).fit(X, y)
