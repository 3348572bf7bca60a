"""The ONNX graph: parity with the model on 10,000 rows, for every map and kernel that leaves, and what cannot."""

import sys
from dataclasses import replace

import numpy as np
import onnx
import pytest
import scipy.sparse as sp

import dkernel
from dkernel import KernelClassifier, KernelRegressor
from dkernel.errors import ModelFileError, RecipeError, UnsupportedError
from dkernel.losses.calibration import Calibration
from tests.combinations import every_two
from tests.leaves.export.feeds import answers
from tests.leaves.export.models import NYSTROM, RANDOM, classifier, height, regressor, rows, wide_scores

X = rows(10_000, seed=1)
# Of the largest score: float32 columns against the float64 formula, and the same formula in another order.
ERROR = {"float32": 3e-5, "float64": 1e-10}


def parity(machine, dtype, n=10_000):
    """What the graph answers of n rows, after its scores have been compared with the definition."""
    graph = dkernel.to_onnx(machine, dtype)
    onnx.checker.check_model(graph, full_check=True)
    found = answers(graph, {"X": X[:n].astype(dtype)})
    S = wide_scores(machine.model_, X[:n])
    assert found["score"].dtype == dtype
    np.testing.assert_allclose(found["score"], S, rtol=0, atol=ERROR[dtype] * np.abs(S).max())
    return found, S


@pytest.mark.parametrize(
    ("which", "features", "dtype"),
    every_two(["two", "numbers", "texts"], ["nystrom", "fourier"], ["float32", "float64"]),
)
def test_classes_and_probabilities(which, features, dtype):
    machine = classifier(which, kernel="Gaussian(gamma=0.3)", features=features)
    found, S = parity(machine, dtype)
    margins = np.abs(S[:, 0]) if S.shape[1] == 1 else np.diff(np.sort(S, axis=1)[:, -2:])[:, 0]
    sure = margins > 1e-4
    wanted = machine.predict(X)
    assert sure.mean() > 0.99
    assert found["label"][sure].tolist() == wanted[sure].tolist()
    P = machine.model_.probabilities(S)
    assert np.abs(found["probability"] - P).max() <= (1e-4 if dtype == "float32" else 1e-9)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_several_targets(dtype):
    Z = rows(600)
    Y = np.column_stack([height(Z), 100 + 20 * Z[:, 0]])
    machine = KernelRegressor("Gaussian(gamma=0.3)", n_components=64, alpha=1e-3, metric="identity").fit(Z, Y)
    _, S = parity(machine, dtype)
    assert S.shape == (10_000, 2)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kernel", NYSTROM.values(), ids=NYSTROM)
def test_every_kernel_of_landmarks(kernel, dtype):
    parity(classifier("two", loss="squared_hinge", kernel=kernel, features="nystrom"), dtype, n=2000)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("settings", RANDOM.values(), ids=RANDOM)
def test_every_random_and_exact_map(settings, dtype):
    parity(classifier("two", loss="hinge", **settings), dtype, n=2000)


@pytest.mark.parametrize("which", ["two", "texts"])
@pytest.mark.parametrize("bend", [0.0, 8.0, -8.0])
def test_calibrated_margins(which, bend):
    machine = classifier(which, loss="squared_hinge", kernel="Gaussian(gamma=0.3)")
    assert machine.model_.calibration is not None
    slope = np.arange(1.0, 1 + len(machine.classes_))
    machine.model_ = replace(machine.model_, calibration=Calibration(slope, np.array([bend])))
    found, S = parity(machine, "float64")
    assert np.abs(found["probability"] - machine.model_.probabilities(S)).max() <= 1e-9
    single = answers(dkernel.to_onnx(machine, "float32"), {"X": X[:2000]})
    assert np.abs(single["probability"] - found["probability"][:2000]).max() <= 1e-3


@pytest.mark.parametrize("which", ["two", "texts"])
def test_softmax(which):
    machine = classifier(which, loss="softmax", kernel="Gaussian(gamma=0.3)")
    found, S = parity(machine, "float64")
    assert np.abs(found["probability"] - machine.model_.probabilities(S)).max() <= 1e-9


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_regression(dtype):
    found, _ = parity(regressor(kernel="Gaussian(gamma=0.3)"), dtype)
    assert list(found) == ["score"]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("settings", [{}, {"alpha": 1e-9}, {"n_components": "auto", "alpha": 1e-8}], ids=str)
def test_the_optimum_of_few_rows(settings, dtype):
    # Its coefficients are so large that float32 columns lose three digits of the scores: they are made in float64.
    machine = regressor(kernel="Gaussian(gamma=0.3)", solver="exact", **settings)
    parity(machine, dtype)


def test_a_machine_of_small_coefficients_stays_in_float32():
    machine = classifier("two", kernel="Gaussian(gamma=0.3)", alpha=0.01)  # half of the largest rounding in float32
    graph = dkernel.to_onnx(machine, "float32")
    kinds = {tensor.data_type for tensor in graph.graph.initializer}
    assert onnx.TensorProto.DOUBLE not in kinds


def test_rows_beside_a_landmark_of_a_kernel_with_a_kink():
    machine = regressor(kernel="Exponential(length=2.0)")
    X = rows(600)  # its landmarks are among them
    found = answers(dkernel.to_onnx(machine), {"X": X})["score"]
    np.testing.assert_allclose(found, wide_scores(machine.model_, X), atol=1e-5)


def test_a_model_of_sparse_rows():
    rng = np.random.default_rng(0)
    X = sp.random(3000, 30, density=0.1, format="csr", dtype=np.float32, rng=rng)
    y = np.asarray(X.sum(axis=1)).ravel() > 1.5
    machine = KernelClassifier("Gaussian(gamma=0.3)", n_components=64, alpha=1e-3, loss="logistic").fit(X, y)
    found = answers(dkernel.to_onnx(machine), {"X": X.toarray()})
    np.testing.assert_allclose(found["probability"], machine.predict_proba(X), atol=1e-4)


def test_it_says_what_its_columns_are():
    graph = dkernel.to_onnx(classifier("two", kernel="Gaussian(gamma=0.3)"))
    assert {p.key: p.value for p in graph.metadata_props} == {"columns": "0,1,2", "kernel": "Gaussian(gamma=0.3)"}
    assert {node.domain for node in graph.graph.node} == {""}
    assert [(each.domain, each.version) for each in graph.opset_import] == [("", 17)]


@pytest.mark.parametrize(
    "settings",
    [{"kernel": "ArcCosine()"}, {"kernel": "Matern(nu=0.8, length=1.0)"}, {"kernel": "Polynomial(degree=2)",
     "features": "tensorsketch"}],
    ids=str,
)  # fmt: skip
def test_what_cannot_leave_says_what_can(settings):
    with pytest.raises(UnsupportedError, match=r"no counterpart in the operators of ONNX.*Laplacian"):
        dkernel.to_onnx(classifier("two", **{"features": "nystrom", **settings}))


def test_refusals(monkeypatch):
    machine = classifier("two", kernel="Gaussian(gamma=0.3)")
    with pytest.raises(RecipeError, match=r"float32 \| float64"):
        dkernel.to_onnx(machine, "float16")
    with pytest.raises(ModelFileError, match="cannot be exported"):
        dkernel.to_onnx(None)
    monkeypatch.setitem(sys.modules, "onnx", None)
    monkeypatch.delitem(sys.modules, "dkernel.leaves.export.graph", raising=False)
    monkeypatch.delitem(sys.modules, "dkernel.leaves.export.nodes", raising=False)
    with pytest.raises(UnsupportedError, match=r"pip install onnx"):
        dkernel.to_onnx(machine)


def test_texts_have_no_graph():
    texts = ["ab", "ba", "aab", "bba"] * 5
    machine = KernelClassifier("SpectrumKernel(k=2)", n_components=8, alpha=1e-2).fit(texts, [0, 1, 0, 1] * 5)
    with pytest.raises(UnsupportedError, match="columns of texts"):
        dkernel.to_onnx(machine)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("which", "settings"),
    [
        ("texts", {"kernel": "auto", "metric": "auto", "n_components": "auto", "alpha": "auto", "solver": "auto"}),
        ("two", {"kernel": "gaussian", "metric": "full"}),
        ("numbers", {"kernel": "0.5 * Gaussian(gamma='auto') + 0.5 * Exponential(length=2.0)", "metric": "full"}),
    ],
    ids=["the defaults", "a learned metric", "a sum in one"],
)
def test_what_is_chosen_and_learned_leaves_too(which, settings, dtype):
    machine = classifier(which, **settings)
    assert machine.model_.scaling.rotation is not None or settings["metric"] != "full"
    parity(machine, dtype)
