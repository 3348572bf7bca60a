"""Fits with scale="quantile": rising changes of a column change nothing, in every face of a model."""

import functools

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import dkernel
from dkernel import KernelClassifier, KernelRegressor, SpectrumKernel
from dkernel.errors import DKernelError, ModelFileError
from dkernel.model import model_file
from tests.leaves.export.feeds import answers

rng = np.random.default_rng(0)
X = np.column_stack([np.exp(3 * rng.normal(size=1500)), rng.normal(size=1500) ** 3, rng.integers(0, 5, 1500)])
Y = np.sin(np.log(X[:, 0])) + np.cbrt(X[:, 1]) + (X[:, 2] == 2)
SETTINGS = {"scale": "quantile", "n_components": 64, "random_state": 0, "local": "none"}


@functools.cache
def fitted(**more):
    return KernelRegressor(**{**SETTINGS, "kernel": "gaussian", **more}).fit(X, Y)


def test_it_learns_what_long_tails_hide():
    standard = fitted(scale="standard", solver="psgd").score(X, Y)
    assert 1 - fitted(solver="psgd").score(X, Y) < 0.25 * (1 - standard)


@pytest.mark.parametrize("more", [{}, {"kernel": "laplacian"}, {"features": "fourier"}, {"metric": "diagonal"}])
def test_a_rising_change_of_a_column_changes_nothing(more):
    few, risen = X[:250], np.column_stack([np.log(X[:250, 0]), np.cbrt(X[:250, 1]), X[:250, 2]])
    machine = KernelRegressor(**{**SETTINGS, "kernel": "gaussian", "solver": "psgd", **more})
    found = [machine.fit(rows, Y[:250]).predict(rows) for rows in (few, risen)]
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("gamma", ["scale", "median", "auto"])
def test_gammas_are_those_of_normal_scores(gamma):
    scaled = fitted().model_.scaling.apply(X, "float64")
    settings = SETTINGS | {"kernel": "gaussian", "solver": "psgd", "gamma": gamma}
    other = KernelRegressor(**{**settings, "scale": "standard"}).fit(scaled, Y)
    assert fitted(**settings).kernel_.gamma == pytest.approx(other.kernel_.gamma, rel=1e-2)


FACES = {
    "missing numbers": lambda: fitted().predict(np.where(X[:20] > 3, np.nan, X[:20])),
    "a frame": lambda: KernelRegressor(**SETTINGS).fit(pd.DataFrame(X).mask(X > 5), Y).predict(pd.DataFrame(X[:20])),
    "more rows": lambda: KernelRegressor(**SETTINGS, kernel="gaussian").fit(X, Y).partial_fit(X, Y).predict(X[:20]),
    "intervals": lambda: fitted(solver="psgd").predict_interval(X[:20]),
    "deviations": lambda: fitted(solver="normal").predict(X[:20], return_std=True)[1],
    "explanations": lambda: dkernel.explain(fitted(), X[:3], X[:50]).values,
    "novelty": lambda: fitted().model_.novelty(X[:20]),
    "classes": lambda: KernelClassifier(**SETTINGS).fit(X, Y > 0).predict_proba(X[:20]),
}


@pytest.mark.parametrize("face", FACES)
def test_every_face_has_finite_answers(face):
    assert np.isfinite(FACES[face]()).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_graph_answers_as_predict_does(dtype):
    machine, far = fitted(dtype=dtype, metric="full"), np.concatenate([X, 1e4 * X])
    found = answers(dkernel.to_onnx(machine, dtype), {"X": far.astype(dtype)})["score"][:, 0]
    np.testing.assert_allclose(found, machine.predict(far), atol=3e-5 if dtype == "float32" else 1e-9)


def test_the_file_holds_it(tmp_path):
    dkernel.save(fitted(), tmp_path / "m")
    np.testing.assert_array_equal(dkernel.load(tmp_path / "m").predict(X), fitted().predict(X))
    arrays = model_file._collect_arrays(fitted().model_)
    falling = {**arrays, "scaling.values": -arrays["scaling.values"]}
    model_file.write_tensors(tmp_path / "n", model_file._to_document(fitted().model_), falling)
    with pytest.raises(ModelFileError, match="normal scores"):
        dkernel.load(tmp_path / "n")


def test_a_linear_kernel_has_no_coefficients_of_columns():
    machine = KernelRegressor(**{**SETTINGS, "kernel": "linear"}).fit(X, Y)
    assert not hasattr(machine, "coef_")
    with pytest.raises(AttributeError, match="scale='standard'"):
        _ = machine.coef_


@pytest.mark.parametrize(
    "rows", [sp.random(1500, 5000, 0.01, "csr", random_state=0), pd.DataFrame({"words": ["a b", "b c"] * 750})]
)
def test_rows_without_ranks_are_refused(rows):
    kernel = "linear" if sp.issparse(rows) else SpectrumKernel(2)
    with pytest.raises(DKernelError, match="quantile"):
        KernelRegressor(**{**SETTINGS, "kernel": kernel}).fit(rows, Y)
