"""Columns of texts and sets through landmarks, out of core: the same model by every executor, from files and arrays."""

import hashlib
import json
from dataclasses import replace

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

import dkernel
from dkernel import Gaussian, KernelClassifier, NystromFeatures, SetKernel, SpectrumKernel
from dkernel.data import block
from dkernel.data.collections.arrays import from_arrays
from dkernel.data.opening import open_source
from dkernel.errors import DataError, DKernelError, RecipeError, UnsupportedError
from dkernel.features import NystromMap
from dkernel.inference.evaluate import evaluate_model
from dkernel.inference.score import write_scores
from dkernel.kernels import FunctionKernel, Linear, Normalized, register
from dkernel.model import model_file
from dkernel.model.recipe import Recipe
from dkernel.streaming.execution.connect import connect
from dkernel.streaming.execution.local import SerialExecutor, ThreadsExecutor
from dkernel.training.fit import train
from dkernel.training.planning.memory_plan import Plan

LETTERS = Normalized(SpectrumKernel(2))
SMALL = {"n_components": 32, "alpha": 1e-4}
MIXED = LETTERS.on(["s"]) + 0.5 * Gaussian(gamma="median").on(["a", "b"])


def table(n, seed=0):
    """Texts of two laws of letters, the set of their pairs, two numbers of different size of which one tells, y."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    shares = np.array([[0.4, 0.3, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4]])
    texts = ["".join(rng.choice(list("ACGT"), rng.integers(4, 16), p=shares[c])) for c in y]
    sets = [sorted({s[i : i + 2] for i in range(len(s) - 1)}) for s in texts]
    a, b = 100 * rng.normal(size=n), rng.normal(size=n) + y
    return pd.DataFrame({"s": texts, "t": sets, "a": a, "b": b, "y": y})


FRAME = table(1200)
TEST = table(300, seed=1)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("objects")
    FRAME.to_parquet(folder / "train.parquet", row_group_size=250)
    TEST.to_parquet(folder / "test.parquet")
    FRAME.drop(columns="t").to_csv(folder / "train.csv", index=False)
    return folder


def digest(model, folder):
    model_file.save(model, folder / "m.safetensors")
    return hashlib.sha256((folder / "m.safetensors").read_bytes()).hexdigest()


def opened(files, kernel, name="train.parquet", exclude=("t",), **how):
    return open_source(files / name, label="y", exclude=exclude, kernel=kernel, **how)


@pytest.mark.parametrize(
    ("kernel", "exclude"),
    [
        (LETTERS, ("t", "a", "b")),
        (MIXED, ("t",)),
        (Normalized(SetKernel()).on(["t"]) * LETTERS.on(["s"]) + Linear().on(["b"]), ()),
    ],
    ids=["text", "text and numbers", "sets"],
)
def test_the_same_bytes_by_every_executor(kernel, exclude, files, tmp_path):
    source = opened(files, kernel, exclude=exclude)
    assert source.dtype == "object"
    assert len(source.units) == 1
    recipe = Recipe(solver="psgd", kernel=repr(kernel), n_components=32, passes=2, rounds=8)
    found = [digest(train(source, recipe, run).model, tmp_path) for run in (SerialExecutor(), ThreadsExecutor(3))]
    assert len(set(found)) == 1
    model = dkernel.load(tmp_path / "m.safetensors").model_
    test = open_source(files / "test.parquet", label="y", columns=model.columns, kernel=model.map.kernel,
                       allow_extra=True)  # fmt: skip
    assert evaluate_model(model, test, SerialExecutor())["accuracy"] > 0.85


@pytest.mark.slow
def test_the_same_bytes_on_processes(files, tmp_path):
    recipe = Recipe(solver="psgd", kernel=repr(MIXED), n_components=32, rounds=8)
    found = []
    for place in ({}, {"workers": 2}):
        with connect(**place) as executor:
            found.append(digest(train(opened(files, MIXED), recipe, executor).model, tmp_path))
    assert found[0] == found[1]


def test_sorted_texts_are_stored_without_a_change_of_bits(tmp_path, monkeypatch):
    frame = FRAME.sort_values("y")
    source = from_arrays(dd.from_pandas(frame[["s", "a", "b"]].reset_index(drop=True), npartitions=4),
                         frame["y"].to_numpy(), kernel=MIXED)  # fmt: skip
    recipe = Recipe(solver="psgd", kernel=repr(MIXED), n_components=32, rounds=4, alpha=1e-4)
    held = train(source, recipe, SerialExecutor())
    before = Plan.of.__func__
    monkeypatch.setattr(Plan, "of", classmethod(lambda cls, *a, **k: _not_kept(before(cls, *a, **k))))
    stored = train(source, recipe, SerialExecutor(), scratch=str(tmp_path / "scratch"))
    assert "stored" in stored.chosen["order"]
    assert digest(held.model, tmp_path) == digest(stored.model, tmp_path)


def _not_kept(plan):
    return replace(plan, keeps_rows=False)


def test_csv_and_parquet_and_memory_say_the_same(files):
    recipe = Recipe(kernel=repr(MIXED), rounds=8, **SMALL)
    sources = [
        opened(files, MIXED, name="train.csv", exclude=()),
        from_arrays(FRAME[["s", "a", "b"]], FRAME["y"], kernel=MIXED),
        from_arrays(FRAME[["s", "a", "b"]].to_numpy(), FRAME["y"], columns=["s", "a", "b"], kernel=MIXED),
    ]
    assert [source.chunk_rows for source in sources] == [(1200,)] * 3
    models = [train(source, recipe, SerialExecutor()).model for source in sources]
    for model in models[1:]:
        np.testing.assert_array_equal(model.coef, models[0].coef)
        np.testing.assert_array_equal(model.map.landmarks, models[0].map.landmarks)


@pytest.fixture(scope="module")
def of_objects():
    """The fit to a column of objects, by the solver that the rows of a Dask collection always get."""
    rows = FRAME["s"].to_numpy(dtype=object)[:, None]
    return KernelClassifier(LETTERS, **SMALL, solver="psgd").fit(rows, FRAME["y"].to_numpy())


@pytest.mark.parametrize(
    "X",
    [
        FRAME["s"].tolist(),
        FRAME["s"].to_numpy(dtype=object),
        np.array(FRAME["s"].tolist()),
        np.array(FRAME["s"].tolist())[:, None],
        FRAME["s"],
        FRAME[["s"]],
        FRAME["s"].astype("category"),
        FRAME["s"].astype("string"),
        dd.from_pandas(FRAME["s"], npartitions=1),
        dd.from_pandas(FRAME[["s"]], npartitions=1),
        da.from_array(FRAME["s"].to_numpy(dtype=object), chunks=-1),
    ],
    ids=[
        "list",
        "objects",
        "text",
        "table",
        "series",
        "frame",
        "category",
        "string",
        "dask series",
        "dask frame",
        "dask",
    ],
)
def test_a_column_of_text_in_any_collection(X, of_objects):
    y = FRAME["y"].to_numpy()
    expected, machine = of_objects, KernelClassifier(LETTERS, **SMALL, solver="psgd").fit(X, y)
    np.testing.assert_array_equal(machine.component_coef_, expected.component_coef_)
    answer = machine.predict(X)
    assert hasattr(answer, "dask") == hasattr(X, "dask")
    np.testing.assert_array_equal(np.asarray(answer), expected.predict(FRAME[["s"]].to_numpy()))
    assert machine.score(X, da.from_array(y) if hasattr(X, "dask") else y) > 0.85


def test_a_row_alone_scores_as_it_does_among_others(tmp_path):
    X = FRAME[["s", "a", "b"]]
    machine = KernelClassifier(MIXED, **SMALL).fit(X, FRAME["y"])
    together = machine.decision_function(X)
    alone = np.concatenate([machine.decision_function(X.iloc[i : i + 1]) for i in (0, 7, 300)])
    assert alone.tobytes() == together[[0, 7, 300]].tobytes()
    dkernel.save(machine, tmp_path / "m.safetensors")
    again = dkernel.load(tmp_path / "m.safetensors").model_
    assert again.objects == ("s",)
    assert again.predict(X.to_numpy()).tolist() == machine.predict(X).tolist()


def test_the_file_holds_tensors_and_json_alone(tmp_path):
    from safetensors.numpy import load_file

    machine = KernelClassifier(SetKernel(), **SMALL).fit(FRAME["t"], FRAME["y"])
    dkernel.save(machine, tmp_path / "m.safetensors")
    found = load_file(tmp_path / "m.safetensors")
    assert found["map.landmarks"].dtype == np.uint8
    assert found["map.ends"].shape == (32, 1)
    first = found["map.landmarks"][: found["map.ends"][0, 0]].tobytes()
    assert tuple(json.loads(first)) in {tuple(t) for t in FRAME["t"]}


def test_scores_of_files_carry_the_text(files, tmp_path):
    model = train(opened(files, MIXED), Recipe(kernel=repr(MIXED), **SMALL), SerialExecutor()).model
    source = open_source(files / "test.parquet", columns=model.columns, keep=["s"], exclude=["t"], known=("y",),
                         kernel=model.map.kernel)  # fmt: skip
    write_scores(model, source, tmp_path / "out.parquet", SerialExecutor())
    out = pd.read_parquet(tmp_path / "out.parquet")
    assert out["s"].tolist() == TEST["s"].tolist()
    assert (out["label"].to_numpy() == TEST["y"].to_numpy()).mean() > 0.85


@pytest.mark.parametrize("rule", ["stratified", "leverage", "rpcholesky"])
def test_landmarks_of_texts_by_every_rule_but_means(rule):
    machine = KernelClassifier(LETTERS, landmarks=rule, **SMALL).fit(FRAME["s"], FRAME["y"])
    assert set(machine.model_.map.landmarks[:, 0]) <= set(FRAME["s"])
    assert machine.score(TEST["s"], TEST["y"]) > 0.85


def test_landmarks_that_are_given():
    machine = KernelClassifier(LETTERS, landmarks=["AAAA", "CCCC", "GGGG", "TTTT"], alpha=1e-4)
    assert machine.fit(FRAME["s"], FRAME["y"]).score(TEST["s"], TEST["y"]) > 0.8
    assert machine.model_.map.landmarks.tolist() == [["AAAA"], ["CCCC"], ["GGGG"], ["TTTT"]]


def test_the_map_alone():
    words = FRAME["s"].tolist()[:60]
    phi = NystromFeatures(SpectrumKernel(2), n_components=60).fit_transform(words)
    K = SpectrumKernel(2)(words)
    assert phi.dtype == np.float64
    assert np.abs(phi @ phi.T - K).max() < 1e-9 * K.max()


@register("tests: same first letter")
def same_first(X, Z):
    return np.array([[float(x[:1] == z[:1]) for z in Z] for x in X])


def test_a_function_of_the_user_sees_objects():
    kernel = FunctionKernel("tests: same first letter").on(["s"]) + LETTERS.on(["s"])
    machine = KernelClassifier(kernel, **SMALL).fit(FRAME[["s"]], FRAME["y"])
    assert machine.score(TEST[["s"]], TEST["y"]) > 0.85
    bags = [tuple(map(tuple, np.random.default_rng(i).normal(size=(3, 2)) + 3 * (i % 2))) for i in range(80)]
    points = KernelClassifier(SetKernel(Gaussian(gamma=0.5)), **SMALL).fit(bags, np.arange(80) % 2)
    assert points.score(bags, np.arange(80) % 2) > 0.9


NUMBERS = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [1, 2, 3]})


@pytest.mark.parametrize(
    ("kernel", "X", "error", "says"),
    [
        (Gaussian(), FRAME[["s", "a"]], DataError, "column 's': it holds text, not numbers"),
        (SpectrumKernel(3), FRAME[["s", "a"]], DataError, "takes one column, and there are 2: 's', 'a'"),
        (Gaussian().on(["a"]), FRAME[["s", "a"]], DataError, "'s': it holds text, and no part of .* takes it"),
        (SpectrumKernel(3), NUMBERS[["b"]], DataError, "'b': it holds integers, and SpectrumKernel"),
        (SpectrumKernel(3).on(["b"]), NUMBERS, DataError, "'b': it holds integers, and SpectrumKernel"),
        (SpectrumKernel(3).on(["c"]), FRAME[["s"]], DataError, "lack"),
        (SpectrumKernel(3), ["a", None, "c"], DataError, "row 1, column '0': the value is missing"),
        (SetKernel(), [{1}, 2, {3}], DataError, "row 1, column '0': the value 2 is a number"),
    ],
)
def test_what_does_not_fit_together_is_said(kernel, X, error, says):
    with pytest.raises(error, match=says):
        KernelClassifier(kernel, **SMALL, categorical_features=None).fit(X, np.arange(len(X)) % 2)


def test_words_that_mean_nothing_for_objects():
    X, y = FRAME["s"], FRAME["y"]
    for how, error, says in (
        ({"gamma": 0.1}, RecipeError, "has none: leave gamma out"),
        ({"features": "fourier"}, UnsupportedError, "Use features='nystrom'"),
        ({"features": "random"}, UnsupportedError, "Use features='nystrom'"),
        ({"landmarks": "kmeans"}, UnsupportedError, "texts, lists or sets"),
    ):
        with pytest.raises(error, match=says):
            KernelClassifier(LETTERS, **SMALL, **how).fit(X, y)
    with pytest.raises(DataError, match="open it for this kernel"):
        train(
            from_arrays(np.ones((9, 1)), np.arange(9) % 2),
            Recipe(solver="psgd", kernel="SpectrumKernel"),
            SerialExecutor(),
        )
    machine = KernelClassifier(LETTERS, **SMALL).fit(X.tolist(), y)
    with pytest.raises(DKernelError, match="the value 1 is a number"):
        machine.predict([1, 2])


def test_numbers_that_are_text_stay_text(tmp_path):
    frame = pd.DataFrame({"s": ["0011", "0101", "1100", "1010"] * 30, "y": [0, 1, 0, 1] * 30})
    frame.to_csv(tmp_path / "digits.csv", index=False)
    source = open_source(tmp_path / "digits.csv", label="y", kernel="SpectrumKernel(2)")
    assert set(source.X.compute()[:, 0]) == {"0011", "0101", "1100", "1010"}


def test_long_texts_make_small_chunks(tmp_path, monkeypatch):
    monkeypatch.setattr(block, "CHUNK_BYTES", 2**20)
    frame = pd.DataFrame({"s": [f"{i}" + "AC" * 500 for i in range(3000)], "y": [0, 1] * 1500})
    frame.to_parquet(tmp_path / "long.parquet", row_group_size=3000)
    frame.to_csv(tmp_path / "long.csv", index=False)
    for source in (
        open_source(tmp_path / "long.csv", label="y", kernel="SpectrumKernel(2)"),
        open_source(tmp_path / "long.parquet", label="y", kernel="SpectrumKernel(2)"),
        from_arrays(frame[["s"]], frame["y"], kernel="SpectrumKernel(2)"),
    ):
        assert len(source.chunk_rows) == 2
        assert 3000 * 1000 < source.nbytes < 3000 * 1500
    blocks = source.units[0].task.compute()
    assert blocks[0].nbytes > 1000 * blocks[0].rows


def test_landmarks_that_are_no_cells_are_no_map():
    map = NystromMap(SpectrumKernel(2), np.array([["ab"], ["c"]], object))
    arrays = map.arrays()
    assert NystromMap.build(map.spec(), arrays).landmarks.tolist() == [["ab"], ["c"]]
    with pytest.raises(ValueError, match="ends of the cells"):
        NystromMap.build(map.spec(), {**arrays, "ends": arrays["ends"] + 1})
