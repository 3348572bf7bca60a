"""coef_ is what scikit-learn means by it or is not there: the law of its numbers, and the tools that read it."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import RFE, RFECV, SelectFromModel, SequentialFeatureSelector

import dkernel
from dkernel import Cells, KernelClassifier, KernelPerceptron, KernelRegressor, OneClassSVM, errors
from tests.combinations import every_two

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 4)) * [1.0, 10.0, 0.01, 1.0] + [0.0, 3.0, 0.2, -7.0]
NUMBER = X @ [1.0, 0.2, 30.0, 0.0] + 0.1 * RNG.normal(size=300)
TARGETS = {"number": NUMBER, "numbers": np.c_[NUMBER, 100 * X[:, 3]], "two": NUMBER > 6}
TARGETS |= {"three": np.digitize(NUMBER, [5.5, 7.5])}
LINEAR = ["linear", "2.5 * Linear() + Linear()", "Polynomial(degree=1, c=2.0)", "Linear().on([0, 2])"]
LINEAR += [f"Linear(A={(np.eye(4) + 0.5).tolist()})"]


def machine_of(target, *kernel, **settings):
    return (KernelRegressor if target.startswith("number") else KernelClassifier)(*kernel, **settings)


def check_law(machine, rows):
    """X @ coef_.T + intercept_ are the scores of complete rows."""
    scores = getattr(machine, "decision_function", machine.predict)(rows)
    wanted = (rows @ machine.coef_.T + machine.intercept_).reshape(scores.shape)
    np.testing.assert_allclose(scores, wanted, atol=2e-5 * np.abs(scores).max())


SETTINGS = [{"scale": scale} for scale in ("none", "standard", "minmax", "maxabs", "global")]
SETTINGS += [{"features": "nystrom", "n_components": 20}, {"solver": "psgd"}, {"dtype": "float64"}]


@pytest.mark.parametrize(("kernel", "settings"), every_two(LINEAR, SETTINGS))
def test_scores_are_columns_by_coefficients(kernel, settings):
    check_law(KernelRegressor(kernel, alpha=1e-4, local="none", **settings).fit(X, NUMBER), X)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("missing", ["indicator", "mean"])
@pytest.mark.parametrize("holes", [0, 40])
def test_shapes_are_those_of_scikit_learn_and_holes_change_no_law(target, missing, holes):
    rows = X.copy()
    rows[:holes, 1] = np.nan
    machine = machine_of(target, "linear", missing=missing).fit(rows, TARGETS[target])
    shapes = {"number": ((4,), ()), "numbers": ((2, 4), (2,)), "two": ((1, 4), (1,)), "three": ((3, 4), (3,))}
    assert (machine.coef_.shape, np.shape(machine.intercept_)) == shapes[target]
    check_law(machine, X[holes:])


def test_the_law_of_sparse_rows_of_a_file_and_of_one_class(tmp_path):
    rows = sparse.random_array((400, 6000), density=0.01, format="csr", rng=0)
    machine = KernelRegressor("linear", alpha=1e-4, local="none").fit(rows, rows[:, :50].sum(axis=1))
    assert machine.model_.map.sparse
    check_law(machine, rows)
    for one in (machine, OneClassSVM(0.1, kernel="linear").fit(X)):
        dkernel.save(one, tmp_path / "m")
        np.testing.assert_array_equal(dkernel.load(tmp_path / "m").coef_, one.coef_)
    check_law(one, X)


TABLE = pd.DataFrame(X, columns=list("abcd")).assign(city=RNG.choice(["x", "y"], 300))


@pytest.mark.parametrize(
    ("machine", "rows", "why"),
    [
        (KernelRegressor("gaussian"), X, "Gaussian"),
        (KernelRegressor("gaussian(gamma=0.1) + Linear()"), X, "Gaussian"),
        (KernelRegressor("polynomial", gamma=1.0), X, "Polynomial"),
        (KernelRegressor("linear"), TABLE, "encodes 'city'"),
        (KernelRegressor("linear"), TABLE[["a"]].assign(day=pd.to_datetime(X[:, 0], unit="D")), "encodes 'day'"),
        (KernelRegressor(features="none", local=Cells(rows=100)), X, "a local stage of cells"),
        (OneClassSVM(), X, "Gaussian"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_elsewhere_there_is_none_and_the_message_names_the_way(machine, rows, why):
    with pytest.raises(NotFittedError):
        _ = machine.coef_
    machine.fit(rows, NUMBER)
    assert not hasattr(machine, "coef_")
    with pytest.raises(errors.UnsupportedError, match=f"{why}.*explain.*component_coef_"):
        _ = machine.coef_
    assert machine.component_coef_.size == machine.model_.map.n_components


WIDE = RNG.normal(size=(200, 6))
PRODUCT = WIDE[:, 3] * WIDE[:, 4]
GAUSSIAN = {"kernel": "gaussian", "gamma": 0.1, "alpha": 1e-3, "local": "none"}
SELECTORS = {
    "RFE": lambda machine: RFE(machine, n_features_to_select=2, step=2),
    "RFECV": lambda machine: RFECV(machine, cv=2, step=2, min_features_to_select=2),
    "SelectFromModel": lambda machine: SelectFromModel(machine, max_features=2),
    "SequentialFeatureSelector": lambda machine: SequentialFeatureSelector(machine, n_features_to_select=2, cv=2),
}


@pytest.mark.parametrize("selector", SELECTORS)
@pytest.mark.parametrize(
    ("settings", "y"),
    [
        ({"kernel": "linear"}, WIDE[:, 3] + WIDE[:, 4] + np.random.default_rng(1).normal(scale=0.5, size=200)),
        (GAUSSIAN, PRODUCT),
        (GAUSSIAN | {"n_components": 100, "solver": "psgd", "holdout": 0.2}, PRODUCT),
    ],
    ids=["linear", "exact", "psgd"],
)
def test_selectors_find_the_columns_that_matter(selector, settings, y):
    found = SELECTORS[selector](KernelRegressor(**settings)).fit(WIDE, y).get_support(indices=True).tolist()
    assert {3, 4} <= set(found) < set(range(6))


def test_columns_of_a_table_are_selected_by_their_importances():
    table = pd.DataFrame(WIDE, columns=list("abcdef")).assign(e=np.where(WIDE[:, 4] > 0, "up", "down"))
    chosen = SelectFromModel(KernelRegressor(**GAUSSIAN), max_features=2).fit(table, WIDE[:, 3] * np.sign(WIDE[:, 4]))
    assert chosen.get_feature_names_out().tolist() == ["d", "e"]


@pytest.mark.parametrize("selector", [RFE, SelectFromModel])
def test_selectors_refuse_in_words_what_has_no_importances(selector):
    with pytest.raises(ValueError, match="`coef_` or `feature_importances_`"):
        selector(KernelPerceptron()).fit(WIDE, WIDE[:, 0] > 0).transform(WIDE)


@pytest.mark.parametrize("target", ["number", "numbers", "two", "three"])
def test_shap_has_the_linear_values_of_a_linear_machine(target):
    shap = pytest.importorskip("shap")
    machine, background = machine_of(target, "linear").fit(X, TARGETS[target]), X[:100]
    wanted = (X[:3] - background.mean(axis=0))[:, :, None] * np.atleast_2d(machine.coef_).T
    for explainer in (shap.Explainer, shap.LinearExplainer):
        found = explainer(machine, background)(X[:3]).values.reshape(wanted.shape)
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-9)


def test_shap_takes_other_machines_by_their_functions_alone():
    shap = pytest.importorskip("shap")
    machine = KernelRegressor(**GAUSSIAN).fit(WIDE, PRODUCT)
    for explainer in (shap.Explainer, shap.LinearExplainer):
        with pytest.raises((TypeError, shap.utils._exceptions.InvalidModelError), match=r"not callable|unknown model"):
            explainer(machine, WIDE[:50])
    found = shap.KernelExplainer(machine.predict, WIDE[:20])
    np.testing.assert_allclose(
        found.shap_values(WIDE[:2], silent=True).sum(axis=1) + found.expected_value,
        machine.predict(WIDE[:2]),
        atol=1e-4,
    )
