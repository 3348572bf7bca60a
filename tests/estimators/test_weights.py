"""Weights: a row of weight k is k rows, exactly where rows are few, and as an objective where the map is the same."""

import dask.array as da
import numpy as np
import pytest

import dkernel
from dkernel import KernelClassifier, KernelRegressor, NystromFeatures, Tuner
from dkernel.data.block import Block
from dkernel.data.collections.arrays import from_arrays
from dkernel.errors import DataError, RecipeError
from dkernel.features import FourierMap, Scaling
from dkernel.kernels import Gaussian
from dkernel.losses.losses import parse_loss
from dkernel.model.model import ScaledComponents
from dkernel.model.recipe import Recipe
from dkernel.solvers.exact import deduplicate
from dkernel.solvers.gram import FoldedGram, Gram
from dkernel.solvers.objective import Gradient, LossStatistic, Objective
from dkernel.solvers.targets import Targets, make_targets
from dkernel.streaming.block_reader import BlockReader
from dkernel.streaming.execution.base import LocalHandle
from dkernel.streaming.execution.local import SerialExecutor
from dkernel.streaming.kept_block import cut_rows
from dkernel.streaming.progress import Progress
from dkernel.streaming.schedule import cut_pieces
from dkernel.streaming.shares import reduce
from dkernel.streaming.survey import Survey
from tests.estimators.data import SMALL, ball, wave
from tests.estimators.wide import texts

K = np.random.default_rng(0).integers(0, 4, 200)
COPIES = np.random.default_rng(1).permutation(np.repeat(np.arange(200), K))
THREE = np.array(["core", "mantle", "crust"])


def rows(task):
    X, y = {"number": wave, "numbers": wave, "texts": texts}.get(task, ball)(200)
    more = {"three": lambda: THREE[np.digitize((X**2).sum(axis=1), [1.5, 3.5])], "numbers": lambda: np.c_[y, y**2]}
    return X, more.get(task, lambda: y)()


def saved(machine, path):
    dkernel.save(machine, path)
    return path.read_bytes()


@pytest.mark.parametrize(
    ("task", "settings"),
    [
        ("two", {}),
        ("two", {"loss": "hinge"}),
        ("two", {"loss": "hinge", "class_weight": "balanced"}),
        ("two", {"loss": "logistic", "features": "fourier", "n_components": 32}),
        ("three", {"class_weight": "balanced", "gamma": 0.3}),
        ("three", {"loss": "softmax", "gamma": 0.3, "n_components": 40, "landmarks": "kmeans"}),
        ("number", {"gamma": 0.3}),
        ("number", {"solver": "normal", "gamma": 0.3}),
        ("number", {"loss": "quantile(0.7)", "gamma": 0.3}),
        ("numbers", {"kernel": "gaussian", "gamma": 0.4}),
        ("texts", {"gamma": 0.5}),
    ],
    ids=str,
)
def test_weights_and_copies_make_the_same_file(task, settings, tmp_path):
    X, y = rows(task)
    kind = KernelRegressor if task.startswith("number") else KernelClassifier
    weighted = kind(**settings).fit(X, y, sample_weight=K)
    copied = kind(**settings).fit(X[COPIES], y[COPIES])
    assert saved(weighted, tmp_path / "a") == saved(copied, tmp_path / "b")
    assert saved(kind(**settings).fit(X, y), tmp_path / "c") != saved(weighted, tmp_path / "b")


def test_a_search_too(tmp_path):
    X, y = rows("two")
    machine = KernelClassifier("gaussian", metric="identity", n_components=16)
    weighted, copied = (Tuner(machine, {"gamma": [0.01, 0.4], "alpha": [1e-4]}) for _ in range(2))
    weighted.fit(X, y, sample_weight=K), copied.fit(X[COPIES], y[COPIES])
    assert weighted.leaderboard_ == copied.leaderboard_
    assert saved(weighted.best_estimator_, tmp_path / "a") == saved(copied.best_estimator_, tmp_path / "b")


def test_equal_rows_are_one_in_an_order_of_their_content():
    X = np.array([[0.0, 1.0], [-0.0, 1.0], [2.0, 3.0], [0.0, 1.0], [5.0, 5.0]])
    y, w = np.array([1, 1, 2, 2, 1]), np.array([0.5, 2.0, 1.0, 1.0, 0.0])
    recipe, executor = Recipe(solver="psgd", kernel="gaussian"), SerialExecutor()
    source = deduplicate(from_arrays(X, y, w), recipe, executor)
    (block,) = source.units[0].task.compute()
    found = {(*x.tolist(), label): weight for x, label, weight in zip(block.X, block.y, block.weight, strict=True)}
    assert found == {(0.0, 1.0, 1): 2.5, (2.0, 3.0, 2): 1.0, (0.0, 1.0, 2): 1.0}
    turned = deduplicate(from_arrays(da.from_array(X[::-1], chunks=(2, 2)), y[::-1], w[::-1]), recipe, executor)
    np.testing.assert_array_equal(turned.units[0].task.compute()[0].X, block.X)
    numbers = [deduplicate(from_arrays(X, each), recipe, executor).X.compute() for each in (y, y.astype(float))]
    np.testing.assert_array_equal(*numbers)
    assert deduplicate(from_arrays(X[2:4], y[2:4], [1, 1]), recipe, executor).weight is None
    texts = deduplicate(from_arrays(["ab", "c", "ab"], [1, 2, 1], kernel="SpectrumKernel(k=1)"),
                   Recipe(solver="psgd", kernel="SpectrumKernel(k=1)"), executor)  # fmt: skip
    assert texts.n_rows == 2
    with pytest.raises(DataError, match="weights are 0 in all 5 rows"):
        deduplicate(from_arrays(X, y, 0 * w), recipe, executor)
    with pytest.raises(RecipeError, match="up to 4,096 rows and the data have 5,000"):
        deduplicate(from_arrays(np.zeros((5000, 1))), recipe, executor)


def test_rows_of_weight_zero_are_no_rows():
    X, y = ball(200)
    y = y.astype(int)
    with_others = np.concatenate([X, 1e6 * np.ones((3, 3), np.float32)]), np.append(y, [7, 7, 0])
    weight = np.append(np.ones(200), [0, 0, 0])
    plain = KernelClassifier(**SMALL).fit(X, y)
    assert KernelClassifier(**SMALL).fit(*with_others, sample_weight=weight).classes_.tolist() == [0, 1]
    np.testing.assert_array_equal(
        plain.component_coef_, KernelClassifier(**SMALL).fit(*with_others, weight).component_coef_
    )
    # In a stream of chunks too: neither classes nor scaling know of them.
    lazy = [da.from_array(a, chunks=(50, *a.shape[1:])) for a in (*with_others, weight)]
    machine = KernelClassifier(**SMALL).fit(*lazy)
    assert machine.classes_.tolist() == [0, 1]
    np.testing.assert_allclose(machine.model_.scaling.shift, X.mean(axis=0), atol=1e-6)
    assert machine.score(X, y) > 0.85


@pytest.mark.parametrize("solver", ["exact", "normal", "lbfgs"])
def test_rows_of_weight_zero_move_no_solver(solver):
    X, y = wave(200)
    weight = (X[:, 1] > -1).astype(float)
    machine = KernelRegressor("linear", alpha=1e-3, local="none", solver=solver, holdout=0, scale=None)
    some = machine.fit(X[weight > 0], y[weight > 0]).predict(X)
    np.testing.assert_allclose(machine.fit(X, y, sample_weight=weight).predict(X), some, atol=1e-3)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("settings", [{}, {"loss": "hinge"}, {"solver": "psgd"}, {"solver": "lbfgs"}], ids=str)
def test_weights_that_are_too_small_or_too_large_are_refused_as_such(settings):
    X, y = ball(200)
    machine = KernelClassifier("gaussian", gamma=0.3, n_components=32, **settings)
    with pytest.raises(DataError, match=r"weights are 0 in all 200 rows \(below 1e-30 counts as 0\)"):
        machine.fit(X, y, sample_weight=np.full(200, 1e-300))
    with pytest.raises(DataError, match=r"row 6, column 'weight': the weight is 1e\+31: .*at most 1e\+30"):
        machine.fit(X, y, sample_weight=np.where(np.arange(200) == 6, 1e31, 1.0))
    for scale in (1e-30, 1e30):
        assert np.isfinite(machine.fit(X, y, sample_weight=np.full(200, scale)).component_coef_).all()


@pytest.mark.parametrize("unit", [2.0**96, pytest.param(2.0**-66, marks=pytest.mark.slow)])
def test_the_unit_of_the_weights_chooses_no_way(unit):
    """A trial counts rows, not the sum of their weights, which may be beyond 64 bits."""
    X, y = ball(3000)
    one, other = (KernelClassifier().fit(X, y, sample_weight=np.full(len(X), w)) for w in (1.0, unit))
    assert "components + grids" in one.chosen_["way"]
    settled = [(each.model_.recipe.local, each.model_.recipe.features, each.chosen_["kernel"]) for each in (one, other)]
    assert settled[0] == settled[1]  # grids round very large weights, so the answers may differ


@pytest.mark.parametrize("weight", [1e16, 1e29])
@pytest.mark.parametrize("solver", ["exact", "psgd", "lbfgs"])
def test_one_weight_of_all_rows_is_none(weight, solver):
    X, y = ball(600)
    given = {"kernel": "gaussian", "gamma": 0.3, "alpha": 1e-4, "scale": "standard", "n_components": 40}
    one, other = (
        KernelClassifier(solver=solver, **given).fit(X, y, sample_weight=np.full(600, w)) for w in (1.0, weight)
    )
    np.testing.assert_allclose(other.decision_function(X), one.decision_function(X), rtol=0, atol=0.02)


def test_a_weight_below_the_least_is_that_of_no_row(tmp_path):
    X, y = ball(200)
    weight = np.where(np.arange(200) < 20, 1e-40, 1.0)
    machine = KernelClassifier("gaussian", gamma=0.3)
    assert saved(machine.fit(X, y, weight), tmp_path / "a") == saved(machine.fit(X[20:], y[20:]), tmp_path / "b")


def surveyed(X, y, weight=None):
    source = from_arrays(da.from_array(X, chunks=(70, -1)), y, weight)
    pieces = cut_pieces([unit.rows for unit in source.units])
    feed = BlockReader(SerialExecutor(), source, keep=False)
    try:
        return feed.fold(Survey(0, source.n_rows, 10), pieces, "test", Progress("none"))
    finally:
        feed.close()


def test_moments_and_counts_of_the_survey():
    X, y = rows("three")
    found, wanted = surveyed(X, y, K), surveyed(X[COPIES], y[COPIES])
    assert found.labels == wanted.labels
    assert found.weight == wanted.weight
    np.testing.assert_allclose(found.moments.mean, wanted.moments.mean, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(found.moments.variance, wanted.moments.variance, rtol=1e-6)
    np.testing.assert_array_equal([found.low, found.high], [wanted.low, wanted.high])
    weights = [make_targets(Recipe(solver="psgd", task="classify"), each, "y", 200)[1] for each in (found, wanted)]
    assert weights[0] == weights[1]
    number = [surveyed(*each).target for each in ((X, X[:, 0], K), (X[COPIES], X[COPIES, 0]))]
    np.testing.assert_allclose(number[0].variance, number[1].variance, rtol=1e-6)


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge", "logistic", "softmax", "squared", "huber"])
def test_with_a_given_map_weights_have_the_gradient_of_copies(loss):
    """What a fit to more rows than are merged is made of, for each of its statistics."""
    X, y = ball(200)
    classes = None if loss == "huber" else np.array([0, 1, 2])
    y = X[:, 0] if classes is None else np.digitize((X**2).sum(axis=1), [1.5, 3.5])
    map = FourierMap.draw(Gaussian(gamma=0.3), 3, 24, 0)
    columns = ScaledComponents(Scaling("none", np.zeros(3), np.ones(3)), map)
    targets = Targets(classes)
    balanced = (
        None if classes is None else targets.weigh_classes("balanced", dict(enumerate(np.bincount(y, K).tolist())))
    )
    objective = Objective(columns, parse_loss(loss).of(targets.outputs), targets, balanced)
    rng = np.random.default_rng(2)
    at = rng.normal(size=(24, targets.outputs)).astype(np.float32), rng.normal(size=targets.outputs).astype(np.float32)

    def total(statistic, block):
        held, n = LocalHandle(block), len(block.X)
        return reduce(SerialExecutor(), statistic, held, cut_rows(n, 64), "t", broadcast=at)

    blocks = Block(X, y, K.astype(float)), Block(X[COPIES], y[COPIES], None)
    one, other = (total(Gradient(objective), block) for block in blocks)
    for name in ("components", "intercept", "loss", "weight"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-4, atol=1e-3)
    one, other = (total(LossStatistic(objective), block) for block in blocks)
    np.testing.assert_allclose([*one.loss, one.weight], [*other.loss, other.weight], rtol=1e-5)
    for statistic in (Gram(objective), FoldedGram(objective, 1)):
        one, other = (total(statistic, block) for block in blocks)
        one, other = (each[0] if isinstance(each, list) else each for each in (one, other))
        np.testing.assert_allclose(one.gram, other.gram, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(one.moment, other.moment, rtol=1e-4, atol=1e-3)


def test_balanced_classes_of_a_stream_are_counted_by_their_weights():
    X, y = ball(900)
    k = np.random.default_rng(0).integers(0, 4, 900)
    copies = np.repeat(np.arange(900), k)
    weighted, copied = (KernelClassifier(**SMALL, class_weight="balanced") for _ in range(2))
    for at in range(0, 900, 300):
        part = slice(at, at + 300)
        weighted.partial_fit(X[part], y[part], classes=[False, True], sample_weight=k[part])
    for at in range(0, len(copies), 450):
        part = copies[at : at + 450]
        copied.partial_fit(X[part], y[part], classes=[False, True])
    assert weighted._partial.counts == copied._partial.counts
    assert weighted._partial.counts == {False: k[~y].sum(), True: k[y].sum()}
    assert np.mean(weighted.predict(X) == copied.predict(X)) > 0.95


def test_few_rows_are_solved_exactly_unless_passes_are_asked_for():
    X, y = ball(300)
    machine = KernelClassifier(gamma=0.4).fit(X, y)
    assert machine.model_.recipe.solver == "exact"
    assert machine.n_components_ == 300
    assert machine.model_.facts["exact"]["converged"]
    assert machine.history_[-1]["alpha"] == machine.model_.recipe.alpha
    by_passes = [
        KernelClassifier(gamma=0.4, n_components=64, **more).fit(X, y).model_.recipe.solver
        for more in ({"solver": "psgd"}, {"passes": 2}, {"loss": "perceptron"}, {"polish": 1})
    ]
    assert by_passes == ["psgd"] * 4
    source = from_arrays(X, y)
    assert KernelClassifier(**SMALL | {"solver": "auto"}).fit(source).model_.recipe.solver == "exact"


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge"])
def test_few_rows_of_dask_make_the_file_of_those_in_memory(loss, tmp_path):
    X, y = ball(300)
    lazy = da.from_array(X, chunks=(80, -1)), da.from_array(y, chunks=130)
    given = {"gamma": 0.4, "loss": loss}
    files = [saved(KernelClassifier(**given).fit(*rows), tmp_path / "m") for rows in ((X, y), lazy)]
    assert files[0] == files[1]
    named = [saved(KernelClassifier(**given, solver="psgd").fit(*rows), tmp_path / "m") for rows in ((X, y), lazy)]
    assert named[0] != named[1]  # other chunks


def test_a_kernel_machine_of_few_rows_is_that_of_its_features():
    """The expansion in all rows, by Newton, and the same problem on explicit features, by L-BFGS."""
    X, y = ball(250)
    settings = {"kernel": "gaussian", "gamma": 0.4, "alpha": 1e-3, "scale": "none", "loss": "logistic"}
    machine = KernelClassifier(**settings).fit(X, y)
    phi = NystromFeatures(Gaussian(gamma=0.4), n_components=250).fit(X).transform(X.astype(np.float64))
    linear = KernelClassifier("linear", features="exact", alpha=1e-3, scale="none", loss="logistic")
    other = linear.set_params(n_components=phi.shape[1]).fit(phi, y)
    np.testing.assert_allclose(machine.decision_function(X), other.decision_function(phi), atol=2e-4)
