"""Scoring: rows in = rows out, in order, kept columns untouched, nothing partial ever visible."""

import json
import time
from dataclasses import replace
from unittest.mock import DEFAULT, Mock

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from dask.delayed import Delayed

from dkernel import KernelRegressor
from dkernel.data.collections.arrays import from_arrays
from dkernel.data.source import Unit
from dkernel.data.writers.atomic import file_digest
from dkernel.errors import ClusterError, DataError, RecipeError, UnsupportedError
from dkernel.features import FourierMap, Scaling
from dkernel.inference.score import write_scores
from dkernel.kernels import parse
from dkernel.model.model import Model
from dkernel.model.model_file import save
from dkernel.model.recipe import Recipe
from dkernel.streaming.execution.local import SerialExecutor, ThreadsExecutor
from tests.inference.tables import LinearModel, a_source, read_table, rejecting

TEXT = np.array(["no", "yes é"])


def real_model() -> Model:
    rng = np.random.default_rng(0)
    phi = FourierMap.draw(parse("Gaussian(gamma=0.3)"), n_in=3, n_components=6, seed=1)
    return Model(
        recipe=Recipe(
            solver="psgd", kernel="Gaussian(gamma=0.3)", gamma=0.3, n_components=phi.n_components, features="fourier"
        ),
        scaling=Scaling("standard", np.zeros(3), np.ones(3)),
        map=phi,
        coef=rng.normal(size=(phi.n_components, 1)),
        intercept=np.zeros(1),
        classes=TEXT,
        columns=("a", "b", "c"),
        label="y",
        facts={},
    )


class Watched(SerialExecutor):
    """Notes what is scored, and how many values are held: the model, and units that other tasks made."""

    def __init__(self, fail_at: int | None = None) -> None:
        super().__init__()
        self.fail_at = fail_at
        self.scored: list[int] = []
        self.held = self.most = self.calls = 0

    def keep(self, value, key):
        self.held += 1
        return super().keep(value, key)

    def compute(self, calls, ahead=()):
        self.held += len(ahead)
        self.most = max(self.most, self.held)
        results = []
        for call in calls:
            if self.fail_at is not None and len(self.scored) == self.fail_at:
                raise KeyboardInterrupt
            self.calls += 1
            results += super().compute([call])[0]
            self.scored += [place.index for place in call.args[-1]]
        return results, super().compute((), ahead)[1]

    def release(self, handles):
        self.held -= len(list(handles))


class Progress:
    def __init__(self) -> None:
        self.told: list = []

    def phase(self, name, total):
        self.told.append((name, total))

    def advance(self, rows):
        self.told.append(rows)

    def message(self, text):
        self.told.append(text)


@pytest.mark.parametrize("name", ["out", "out.parquet", "out.csv", "out.zarr"])
def test_every_row_once_in_order_with_its_kept_columns(tmp_path, name):
    source, X = a_source()
    model = LinearModel(TEXT)
    result = write_scores(model, source, tmp_path / name, SerialExecutor())
    assert (result.rows, result.parts, result.skipped, result.reused) == (11, 3, False, 0)
    assert result.columns == ("id", "name", "label", "score")
    found = read_table(tmp_path / name)
    assert list(found) == (sorted(result.columns) if name == "out.zarr" else list(result.columns))
    assert found["id"].tolist() == list(range(11))
    assert found["name"].tolist() == [f'n"{i},\n' for i in range(11)]
    assert found["label"].tolist() == TEXT[(X[:, 0] > 0).astype(int)].tolist()
    np.testing.assert_array_equal(found["score"].to_numpy().astype("float32"), X[:, 0])


def test_columns_of_many_classes_and_their_types(tmp_path):
    source, X = a_source()
    model = LinearModel([2, 5, 7], outputs=3, logistic=True)
    write_scores(model, source, tmp_path / "out", SerialExecutor(), write=("probability", "score", "label"))
    found = pd.read_parquet(tmp_path / "out").drop(columns="name")
    scores, probabilities = [f"score_{c}" for c in (2, 5, 7)], [f"probability_{c}" for c in (2, 5, 7)]
    assert list(found.columns) == ["id", "label", *scores, *probabilities]
    assert found.dtypes.astype(str).tolist() == ["int64", "int64", *["float32"] * 3, *["float64"] * 3]
    np.testing.assert_array_equal(found[scores], X)
    np.testing.assert_array_equal(found[probabilities], model.probabilities(X))
    np.testing.assert_array_equal(found["label"], np.array([2, 5, 7])[X.argmax(axis=1)])


@pytest.mark.parametrize(("classes", "name"), [(TEXT, "probability_yes é"), (["a", "b", "c"], "probability")])
def test_by_default_the_label_has_one_probability(tmp_path, classes, name):
    source, X = a_source(text=False)
    model = LinearModel(classes, outputs=1 if len(classes) == 2 else 3, logistic=True)
    write_scores(model, source, tmp_path / "out", SerialExecutor())
    found, P = pd.read_parquet(tmp_path / "out"), model.probabilities(model.scores(X))
    assert list(found) == ["id", "label", name]
    np.testing.assert_array_equal(found[name], P[:, 1] if len(classes) == 2 else P.max(axis=1))
    with pytest.raises(DataError, match="already exists"):  # of other columns than an output of before
        write_scores(model, source, tmp_path / "out", SerialExecutor(), write=("label", "score"))


@pytest.mark.parametrize("classes", [[False, True], [-1, 4], [0.5, 1.5], ["a", "bcd"]])
def test_the_label_has_the_type_of_the_classes(tmp_path, classes):
    source, X = a_source(text=False)
    write_scores(LinearModel(classes), source, tmp_path / "out", SerialExecutor(), write=["label"])
    label = pd.read_parquet(tmp_path / "out")["label"]
    assert label.tolist() == np.array(classes)[(X[:, 0] > 0).astype(int)].tolist()
    assert pa.array(label).type == pa.array(classes).type or isinstance(classes[0], str)


def test_a_regression_writes_its_score_and_nothing_else(tmp_path):
    source, X = a_source(text=False)
    write_scores(LinearModel(None), replace(source, kept=()), tmp_path / "out.npy", SerialExecutor())
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), X[:, :1])
    for word in ("label", "probability"):
        with pytest.raises(UnsupportedError, match=f"no {word}"):
            write_scores(LinearModel(None), source, tmp_path / "x", SerialExecutor(), write=["score", word])


def test_what_cannot_be_written_is_refused_before_anything_is_read(tmp_path):
    source, _ = a_source()
    watched = Watched()
    with pytest.raises(UnsupportedError, match="logistic"):
        write_scores(LinearModel(TEXT), source, tmp_path / "x", watched, write=["probability"])
    with pytest.raises(RecipeError, match="'labels'"):
        write_scores(LinearModel(TEXT), source, tmp_path / "x", watched, write=["labels"])
    with pytest.raises(RecipeError, match="nothing"):
        write_scores(LinearModel(TEXT), source, tmp_path / "x", watched, write=[])
    with pytest.raises(DataError, match="'label' is of type string"):
        write_scores(LinearModel(TEXT), source, tmp_path / "x.npy", watched)
    with pytest.raises(DataError, match=r"kept column 'score'"):
        write_scores(LinearModel(TEXT), replace(source, kept=("id", "score")), tmp_path / "x", watched)
    assert (watched.most, watched.scored) == (0, [])
    assert list(tmp_path.iterdir()) == []


def test_empty_units_leave_no_part(tmp_path):
    source, _ = a_source(rows=((0,), (2, 0, 1), (), (4,), (0, 0)))
    assert write_scores(LinearModel(TEXT), source, tmp_path / "out", SerialExecutor()).parts == 2
    assert sorted(p.name for p in (tmp_path / "out").glob("part*")) == ["part-00000.parquet", "part-00001.parquet"]
    assert pd.read_parquet(tmp_path / "out")["id"].tolist() == list(range(7))
    none, _ = a_source(rows=((0,), ()))
    assert write_scores(LinearModel(TEXT), none, tmp_path / "none", SerialExecutor()).rows == 0
    assert pd.read_parquet(tmp_path / "none").columns.tolist() == pd.read_parquet(tmp_path / "out").columns.tolist()


def test_the_same_command_does_nothing_and_another_is_refused(tmp_path):
    source, _ = a_source()
    write_scores(LinearModel(TEXT), source, tmp_path / "out", SerialExecutor())
    before, watched = file_digest(tmp_path / "out"), Watched()
    result = write_scores(LinearModel(TEXT), source, tmp_path / "out", watched)
    assert (result.skipped, result.rows, watched.scored) == (True, 11, [])
    with pytest.raises(DataError, match="different: model"):
        write_scores(LinearModel(TEXT, shift=1.0), source, tmp_path / "out", watched)
    with pytest.raises(DataError, match="different: input"):
        write_scores(LinearModel(TEXT), replace(source, fingerprint="f2"), tmp_path / "out", watched)
    with pytest.raises(DataError, match="different: columns"):
        write_scores(LinearModel(TEXT), source, tmp_path / "out", watched, write=["score"])
    assert file_digest(tmp_path / "out") == before
    assert write_scores(LinearModel(TEXT, shift=1.0), source, tmp_path / "out", watched, overwrite=True).rows == 11
    assert file_digest(tmp_path / "out") != before


@pytest.mark.usefixtures("one_a_task")
def test_an_interrupted_run_goes_on_without_scoring_again(tmp_path):
    source, _ = a_source(rows=((3,), (2,), (4,), (1,), (5,)))
    write_scores(LinearModel(TEXT), source, tmp_path / "ref", Watched())
    first, second, progress = Watched(fail_at=3), Watched(), Progress()
    with pytest.raises(KeyboardInterrupt):
        write_scores(LinearModel(TEXT), source, tmp_path / "out", first)
    assert not (tmp_path / "out").exists()
    assert first.held == 0
    result = write_scores(LinearModel(TEXT), source, tmp_path / "out", second, progress=progress)
    assert (first.scored, second.scored, result.reused) == ([0, 1, 2], [3, 4], 3)
    assert progress.told == ["3 of 5 parts are reused from a stopped run.", ("score", 6), 1, 5]
    assert file_digest(tmp_path / "out") == file_digest(tmp_path / "ref")


def test_a_failure_at_the_first_part_leaves_nothing(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        write_scores(LinearModel(TEXT), a_source()[0], tmp_path / "out", Watched(fail_at=0))
    assert list(tmp_path.iterdir()) == []


def made_by_two(source):
    """The source with units that take two tasks, as those of Dask arrays do."""
    units = []
    for unit in source.units:
        key = f"second-{unit.task.key}"
        units.append(Unit(unit.rows, Delayed(key, {**unit.task.dask, key: (tuple, unit.task.key)}), unit.name))
    return replace(source, units=tuple(units))


def test_a_unit_that_other_tasks_make_is_held_until_it_is_scored(tmp_path):
    source, _ = a_source(rows=((2,),) * 5)
    write_scores(LinearModel(TEXT), source, tmp_path / "one", one := Watched())
    write_scores(LinearModel(TEXT), made_by_two(source), tmp_path / "two", two := Watched())
    assert (one.most, two.most, one.held, two.held) == (1, 2, 0, 0)  # the model is one
    assert file_digest(tmp_path / "one") == file_digest(tmp_path / "two")


class Slow(LinearModel):
    """Counts the blocks whose scoring has begun, and those whose scoring is over."""

    def __init__(self, classes):
        super().__init__(classes)
        self.begun, self.over = [], []

    def scores(self, X):
        self.begun.append(1)
        time.sleep(0.02)
        self.over.append(1)
        return super().scores(X)


@pytest.mark.usefixtures("one_a_task")
def test_what_is_begun_comes_to_its_end_before_the_run_is_refused(tmp_path):
    source, model = rejecting(a_source(rows=((2,),) * 20)[0], {0: 1}), Slow(TEXT)
    with pytest.raises(DataError, match="max_bad_rows=0 allows no more"):
        write_scores(model, source, tmp_path / "out", ThreadsExecutor(2))
    assert 1 <= len(model.begun) == len(model.over) < 20
    assert list(tmp_path.iterdir()) == []


def test_many_small_units_are_few_tasks_and_the_same_bytes(tmp_path, request):
    source, _ = a_source(rows=((1,),) * 150 + ((0, 2), (100_000,), (1,), (3,)))
    write_scores(LinearModel(TEXT), source, tmp_path / "few", few := Watched())
    request.getfixturevalue("one_a_task")
    write_scores(LinearModel(TEXT), source, tmp_path / "many", many := Watched())
    assert (few.calls, many.calls) == (5, 154)  # of 64, 64 and 23 units, the large one, and two more
    assert few.scored == many.scored == list(range(154))
    assert file_digest(tmp_path / "few") == file_digest(tmp_path / "many")


@pytest.mark.parametrize("name", ["out", "out.csv"])
def test_two_models_do_not_write_to_one_place_at_a_time(tmp_path, name):
    """Either could have put its manifest beside the other's rows."""
    source, _ = a_source()

    def score_other():
        return write_scores(LinearModel(TEXT, shift=1.0), source, tmp_path / name, SerialExecutor(), overwrite=True)

    def disturb(_):
        with pytest.raises(ClusterError, match="another run with another model or other rows, which is still running"):
            score_other()
        return DEFAULT

    model = LinearModel(TEXT)
    model.scores = Mock(wraps=model.scores, side_effect=disturb)
    write_scores(model, source, tmp_path / name, SerialExecutor(), overwrite=True)
    assert model.scores.called
    (tmp_path / "ref").mkdir()
    write_scores(LinearModel(TEXT), source, tmp_path / "ref" / name, SerialExecutor())
    assert file_digest(tmp_path / name) == file_digest(tmp_path / "ref" / name)
    score_other()  # nobody works there any more
    assert not list(tmp_path.glob(".*staging*"))


def test_a_run_that_is_stopped_in_a_group_keeps_what_it_has_written(tmp_path):
    source, _ = a_source(rows=((1,),) * 9)
    write_scores(LinearModel(TEXT), source, tmp_path / "ref", SerialExecutor())
    stopped = LinearModel(TEXT)
    stopped.scores = Mock(wraps=stopped.scores, side_effect=[*[DEFAULT] * 4, KeyboardInterrupt])
    with pytest.raises(KeyboardInterrupt):
        write_scores(stopped, source, tmp_path / "out", SerialExecutor())
    result = write_scores(LinearModel(TEXT), source, tmp_path / "out", again := Watched())
    assert (result.reused, again.scored) == (4, [4, 5, 6, 7, 8])
    assert file_digest(tmp_path / "out") == file_digest(tmp_path / "ref")


def test_an_input_that_lost_rows_is_refused(tmp_path):
    source, _ = a_source()
    (one_row,) = a_source(rows=((1,),))[0].units
    with pytest.raises(DataError, match="1 rows where 4"):
        write_scores(
            LinearModel(TEXT),
            replace(source, units=(source.units[0], Unit((4,), one_row.task, "file1"))),
            tmp_path / "out",
            SerialExecutor(),
        )
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["out", "out.csv"])
@pytest.mark.parametrize("executor", ["threads", pytest.param("cluster", marks=pytest.mark.cluster)], indirect=True)
def test_every_executor_writes_the_same_bytes_and_names_the_model(tmp_path, name, executor):
    source, _ = a_source(rows=((3, 2), (4,), (1, 0, 1), (2,), (7,)))
    model = real_model()
    (tmp_path / "serial").mkdir()
    write_scores(model, source, tmp_path / "serial" / name, SerialExecutor())
    write_scores(model, source, tmp_path / name, executor)
    write_scores(model, made_by_two(source), tmp_path / f"two-{name}", executor)
    for found in (name, f"two-{name}"):
        assert file_digest(tmp_path / found) == file_digest(tmp_path / "serial" / name)
    manifest = "out/_manifest.json" if name == "out" else f".{name}.manifest.json"
    job = json.loads((tmp_path / manifest).read_text())["job"]
    assert (job["model"], job["input"]) == (save(model, tmp_path / "model"), source.fingerprint)


def test_novelty_is_a_column_too(tmp_path):
    X = np.random.default_rng(4).normal(size=(300, 2))
    model = KernelRegressor("gaussian", gamma=0.3, n_components=8, solver="psgd", local="none").fit(X, X[:, 0]).model_
    write_scores(model, from_arrays(X), tmp_path / "out.parquet", SerialExecutor(), write=["score", "novelty"])
    written = pd.read_parquet(tmp_path / "out.parquet")
    assert list(written) == ["score", "novelty"]
    np.testing.assert_allclose(written["novelty"], model.novelty(X), atol=1e-12)
    assert written["novelty"].max() > 0.01
