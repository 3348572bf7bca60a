"""Landmarks of a fit: the same by every way to run it, given ones as they are, and what a model says of them."""

import dask.array as da
import numpy as np
import pytest

from dkernel import KernelClassifier, KernelFeatures, KernelRegressor, NystromFeatures
from dkernel.data.collections.arrays import from_arrays
from dkernel.errors import DataError, RecipeError, UnsupportedError
from dkernel.features.landmarks import RULES
from dkernel.kernels import AdditiveChi2, Linear
from dkernel.model import model_file
from dkernel.model.recipe import Recipe
from dkernel.numerics.random_streams import row_hash
from dkernel.solvers.reservoir_split import split_reservoir
from dkernel.solvers.sizes import CANDIDATES, Sizes
from dkernel.streaming.execution.local import SerialExecutor, ThreadsExecutor
from dkernel.streaming.survey import Reservoir
from dkernel.training.fit import train
from tests.streaming.sources import rings, source_of, waves

N = 6000
BASE = Recipe(solver="psgd", n_components=60, kernel="gaussian", metric="identity", gamma=0.15, rounds=8, alpha=1e-5)
LAYOUTS = [[(1500, 700), (2600,), (1, 199, 1000)], [(N,)], [(500,)] * 12]


@pytest.fixture(scope="module", name="data")
def two_classes():
    return rings(N)


@pytest.fixture(params=RULES)
def rule(request):
    return request.param


def fitted(X, y, recipe, executor=None, layout=None, **more):
    source = from_arrays(X, y) if layout is None else source_of(X, y, layout)
    return train(source, recipe, executor or SerialExecutor(), **more).model


def test_workers_do_not_change_them(rule, data, tmp_path):
    def saved(executor):
        model_file.save(fitted(*data, BASE.replace(landmarks=rule), executor, LAYOUTS[0]), tmp_path / "m")
        return (tmp_path / "m").read_bytes()

    assert saved(SerialExecutor()) == saved(ThreadsExecutor(3))


@pytest.mark.cluster
def test_processes_do_not_change_them(data, two_workers):
    for rule in ("leverage", "kmeans"):
        recipe = BASE.replace(landmarks=rule)
        one, two = (fitted(*data, recipe, executor, LAYOUTS[0]) for executor in (SerialExecutor(), two_workers))
        np.testing.assert_array_equal(one.map.landmarks, two.map.landmarks)
        np.testing.assert_array_equal(one.coef, two.coef)


def test_chunks_do_not_change_them(rule, data):
    recipe = BASE.replace(landmarks=rule, scale="none")
    models = [fitted(*data, recipe, layout=layout) for layout in LAYOUTS]
    for model in models[1:]:
        np.testing.assert_array_equal(model.map.landmarks, models[0].map.landmarks)


def test_chunks_do_not_change_those_of_a_transformer(rule, data):
    X, y = data
    whole = NystromFeatures(gamma=0.2, n_components=40, landmarks=rule, random_state=3).fit(X, y)
    lazy = da.from_array(X, chunks=(900, 3)), da.from_array(y, chunks=700)
    other = NystromFeatures(gamma=0.2, n_components=40, landmarks=rule, random_state=3).fit(*lazy)
    np.testing.assert_array_equal(other.landmarks_, whole.landmarks_)
    assert whole.landmarks_.shape == (40, 6)
    if rule not in ("uniform", "stratified"):  # the first rows of classes alike in size are the first rows
        uniform = NystromFeatures(gamma=0.2, n_components=40, random_state=3).fit(X)
        assert not np.array_equal(uniform.landmarks_, whole.landmarks_)


def test_a_fit_is_as_good_by_every_rule(rule, data):
    X_new, y_new = rings(3000, seed=1)
    model = fitted(*data, BASE.replace(n_components=200, landmarks=rule))
    assert np.mean(model.predict(X_new) != y_new) < 0.11
    assert model.recipe.landmarks == rule
    assert model.map.n_components == 200


def test_estimator_and_recipe_say_the_same(data):
    X, y = data
    machine = KernelClassifier(gamma=0.15, n_components=60, alpha=1e-5, landmarks="rpcholesky").fit(X, y)
    assert machine.model_.recipe.landmarks == "rpcholesky"
    same = fitted(X, y, machine._recipe())
    np.testing.assert_array_equal(machine.model_.coef, same.coef)


def test_given_landmarks_are_used_as_they_are(data, tmp_path):
    X, y = data
    Z = np.random.default_rng(0).standard_normal((33, 6))
    machine = KernelClassifier(gamma=0.15, alpha=1e-5, landmarks=Z, n_components=999).fit(X, y)
    model = machine.model_
    np.testing.assert_array_equal(model.map.landmarks, model.scaling.apply(Z.astype(np.float32)))
    assert (model.recipe.landmarks, model.recipe.n_components, machine.n_components_) == ("given", 33, 33)
    model_file.save(model, tmp_path / "m")
    np.testing.assert_array_equal(model_file.load_model(tmp_path / "m").scores(X[:50]), model.scores(X[:50]))
    np.testing.assert_array_equal(NystromFeatures(gamma=0.2, landmarks=Z).fit(X.astype(float)).landmarks_, Z)
    other = KernelClassifier(gamma=0.15, alpha=1e-5, landmarks=Z + 0.1).fit(X, y)
    assert not np.array_equal(other.component_coef_, machine.component_coef_)
    regressor = KernelRegressor(gamma=0.15, alpha=1e-5, landmarks=Z).fit(*waves(2000))
    assert regressor.n_components_ == 33


def test_more_given_landmarks_than_rows():
    X, y = rings(40)
    Z = np.random.default_rng(0).standard_normal((90, 6))
    assert KernelClassifier(gamma=0.15, landmarks=Z).fit(X, y).n_components_ == 90


@pytest.mark.parametrize(
    ("landmarks", "error", "message"),
    [
        (np.zeros((3, 5)), DataError, "5 columns at row 0 of the landmarks; 6 are needed"),
        (np.array([[0, 0, 0, 0, np.nan, 0]]), DataError, "row 0 of the landmarks, column '4': the value nan"),
        (np.zeros((0, 6)), DataError, "no rows"),
        (np.zeros(6), DataError, "1 dimension"),
        ("given", RecipeError, "Give the array again, or a rule"),
        ("k-means", RecipeError, "Did you mean 'kmeans'"),
    ],
    ids=str,
)
def test_what_are_no_landmarks_is_refused(landmarks, error, message, data):
    with pytest.raises(error, match=message):
        KernelClassifier(gamma=0.15, landmarks=landmarks).fit(*data)


def test_what_does_not_go_with_a_rule_is_refused(data):
    with pytest.raises(RecipeError, match="features='nystrom'"):
        Recipe(solver="psgd", features="fourier", landmarks="kmeans")
    with pytest.raises(RecipeError, match="'stratified'"):
        KernelRegressor(landmarks="stratified").fit(*waves(100))
    with pytest.raises(DataError, match="pass y"):
        NystromFeatures(n_components=5, landmarks="stratified").fit(data[0])


def test_stratified_landmarks_hold_the_rare_class():
    X, _ = rings(8000)
    rare = np.arange(8000) % 50 == 0
    X[rare] += 3
    counts = {}
    for rule in ("uniform", "stratified"):
        model = fitted(X, rare, BASE.replace(landmarks=rule, scale="none"))
        held = {row.tobytes() for row in X[rare]}
        counts[rule] = sum(row.tobytes() in held for row in model.map.landmarks)
    assert counts["uniform"] <= 6
    assert counts["stratified"] == 15  # of 60: a fourth


def test_the_certificate_is_the_residual_of_rows_like_those_of_the_fit(data):
    X, y = data
    few, many = (fitted(X, y, BASE.replace(n_components=n)) for n in (30, 300))
    assert many.facts["certificate"]["trace_error"] < few.facts["certificate"]["trace_error"]
    found = few.facts["certificate"]
    assert found["trace_error"] == pytest.approx(few.novelty(rings(2000, seed=1)[0]).mean(), rel=0.15)
    assert found["trace_share"] == pytest.approx(found["trace_error"])
    assert found["effective_rank"] == pytest.approx(few.map.effective_rank)
    assert 100 <= found["trace_rows"] <= 2000
    fourier = fitted(X, y, BASE.replace(features="fourier"))
    assert "certificate" not in fourier.facts
    with pytest.raises(UnsupportedError, match="features='nystrom'"):
        fourier.novelty(X)


def test_novelty_is_zero_on_the_landmarks_and_large_far_away(data):
    X, y = data
    model = fitted(X, y, BASE.replace(scale="none"))
    r = model.novelty(np.concatenate([model.map.landmarks, X[:500], X[:5] + 50]))
    assert r.min() >= -1e-6
    np.testing.assert_allclose(r[:60], 0, atol=1e-6)
    np.testing.assert_allclose(r[-5:], 1)
    with pytest.raises(DataError, match="columns"):
        model.novelty(X[:, :3])


@pytest.mark.parametrize("n", [3, 700, 10**6])
@pytest.mark.parametrize("columns", [1, 300, 9000])
def test_there_are_rows_to_choose_from(n, columns):
    uniform, chosen = (
        Sizes.of(n, 5, Recipe(solver="psgd", n_components=columns, landmarks=r)) for r in ("uniform", "leverage")
    )
    assert uniform.reservoir <= chosen.reservoir <= n
    assert (uniform.holdout, uniform.leverage_rows, uniform.sample) == (
        chosen.holdout,
        chosen.leverage_rows,
        chosen.sample,
    )
    if n == 10**6:
        assert chosen.candidates == max(CANDIDATES, 4 * columns)


def test_chosen_landmarks_leave_the_sample_until_all_others_are_in_it():
    sizes = Sizes.of(3000, 1, Recipe(solver="psgd", n_components=50))
    X = np.arange(3000, dtype=np.float32)[:, None]
    roles = split_reservoir(Reservoir(X, np.arange(3000), None, np.sort(row_hash(0, "reservoir", 0, 3000))), sizes)
    rows = np.arange(50)
    np.testing.assert_array_equal(roles.sample_beside(rows).X, roles.sample.X)
    landmarks = rows[::-1] * 7
    sample = roles.sample_beside(landmarks)
    np.testing.assert_array_equal(sample.y, sample.X[:, 0])
    assert set(sample.y[-50:]) <= set(roles.pool.y[landmarks])
    assert len(set(sample.y)) == sample.rows == roles.sample.rows


@pytest.mark.parametrize("features", ["random", "nystrom"])
@pytest.mark.parametrize(
    "kernel", [AdditiveChi2(), AdditiveChi2().on([1, 2]), 0.5 * AdditiveChi2() + Linear()], ids=repr
)
def test_a_map_of_counts_refuses_columns_below_0_when_it_is_fitted(kernel, features):
    X = np.random.default_rng(0).random((5000, 3))
    made = KernelFeatures(kernel, features=features, n_components=24).fit(X)
    assert made.transform(X[:5]).shape == (5, made.n_components_)
    X[4321, 2] = -0.25  # no row of the sample, perhaps
    with pytest.raises(DataError, match=r"the least value of X is -0\.25"):
        KernelFeatures(kernel, features=features, n_components=24).fit(X)
