"""The law of the gate: the same rows have the same schema, model and answers by any door, or are refused by all.

Tables are drawn from types; a door is a way in which rows reach a fit or a model.
"""

import datetime as dt
import json
import re
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import dkernel
from dkernel.cli import main
from dkernel.data.collections.arrays import from_arrays
from dkernel.data.column_types import is_bytes, value_type
from dkernel.data.source import Source
from dkernel.errors import DKernelError
from dkernel.leaf_table import has_leaf
from dkernel.model.model_file import compute_digest
from tests.combinations import every_two, examples

# What no row of the training had is told by some doors while they answer, by others with the answers.
pytestmark = [
    pytest.mark.filterwarnings("ignore::dkernel.errors.UnknownCategoriesWarning"),
    pytest.mark.filterwarnings("ignore::dkernel.errors.DriftWarning"),
]

N = 48
MOMENT = dt.datetime(2024, 2, 28, 23, 30)
HOUR = dt.timedelta(hours=1)
SETTINGS = {"kernel": "gaussian", "gamma": 1.0, "n_components": 6, "alpha": 1e-3, "local": "none", "scale": "standard"}

# Type -> the type of Arrow, a value of a number from 0 to 11, and whether a CSV shows the value as what it is.
TYPES = {
    "bool": (pa.bool_(), lambda k: k % 3 == 0, True),
    "int8": (pa.int8(), lambda k: k - 5, True),
    "int64": (pa.int64(), lambda k: 1000 * k, True),
    "uint16": (pa.uint16(), int, True),
    "float32": (pa.float32(), lambda k: k / 4, True),
    "float64": (pa.float64(), lambda k: k / 10, True),
    "decimal": (pa.decimal128(12, 2), lambda k: Decimal(k) / 4, True),
    "whole decimal": (pa.decimal128(38, 0), Decimal, True),
    "text": (pa.string(), lambda k: "abcdefghijkl"[k], True),
    "large text": (pa.large_string(), lambda k: f"word {k}", True),
    "bytes": (pa.binary(), lambda k: b"xyz"[k % 3 : k % 3 + 1], True),
    "codes": (pa.string(), lambda k: f"0{k % 7}", False),
    "versions": (pa.string(), lambda k: f"1.{k}.2", True),
    "ranges": (pa.string(), lambda k: f"{k}0-{k}9", True),
    "category": (pa.dictionary(pa.int8(), pa.string()), lambda k: "uvw"[k % 3], True),
    "category of numbers": (pa.dictionary(pa.int8(), pa.int64()), lambda k: 10 * k, False),
    "category of dates": (pa.dictionary(pa.int8(), pa.date32()), lambda k: dt.date(2024, 1, 1 + k), False),
    "date": (pa.date32(), lambda k: (MOMENT + k * 24 * HOUR).date(), True),
    "moment, s": (pa.timestamp("s"), lambda k: MOMENT + k * HOUR, True),
    "moment, ns": (pa.timestamp("ns"), lambda k: MOMENT + k * HOUR, True),
    "moment, UTC": (pa.timestamp("us", "UTC"), lambda k: (MOMENT + k * HOUR).replace(tzinfo=dt.UTC), True),
    "moment, zone": (pa.timestamp("us", "Europe/Rome"), lambda k: (MOMENT + k * HOUR).replace(tzinfo=dt.UTC), False),
    "dates as text": (pa.string(), lambda k: str((MOMENT + k * 24 * HOUR).date()), True),
    "moments as text": (pa.string(), lambda k: (MOMENT + k * HOUR).isoformat(), True),
    "duration": (pa.duration("s"), lambda k: k * HOUR, False),
    "duration, ms": (pa.duration("ms"), lambda k: k * HOUR, False),
    "uint64": (pa.uint64(), lambda k: 2**50 + k, True),
    "far decimal": (pa.decimal128(12, 2), lambda k: Decimal(["1.53", "2.07", "-0.25"][k % 3]), True),
    "view": (pa.string_view(), lambda k: "abcdefghijkl"[k], True),
    "large bytes": (pa.large_binary(), lambda k: "xyé"[k % 3].encode(), True),
    "truth words": (pa.string(), lambda k: "yes" if k % 2 else "no", True),
    "odd words": (pa.string(), lambda k: ['a,"b"', "c\nd", "e=f", " x", "x", "X", "ж", "#1", "", "1.0x"][k % 10], True),
    "far date": (pa.date32(), lambda k: dt.date(1 + 800 * k, 2, 28), True),
    "far moment": (pa.timestamp("us"), lambda k: dt.datetime(1 + 800 * k, 2, 28, 10, 30, k), True),
    "date64": (pa.date64(), lambda k: (MOMENT + k * 24 * HOUR).date(), True),
    "parts of a second": (pa.timestamp("us"), lambda k: MOMENT + k * HOUR / 9, True),
    "time": (pa.time64("us"), lambda k: dt.time(k, 0, k, 1000 * k), True),
    "times as text": (pa.string(), lambda k: dt.time(k, 0, k, 1000 * k).isoformat(), True),
    "durations as text": (pa.string(), lambda k: str(pd.Timedelta(k * HOUR)), True),
    "nothing": (pa.null(), lambda _: None, True),
    "lists": (pa.list_(pa.int64()), lambda k: [k], False),
    "other dates": (pa.string(), lambda k: (MOMENT + k * 24 * HOUR).strftime("%d.%m.%Y"), True),
    "amounts": (pa.string(), lambda k: f"{k + 1},234.50", True),
}


# Types of equal values, in any of which a model scores alike what it learned in another.
TWINS = [
    ("text", "view"),
    ("date", "date64", "dates as text"),
    ("moment, s", "moment, ns", "moments as text"),
    ("moment, UTC", "moment, zone"),
    ("duration", "duration, ms", "durations as text"),
    ("time", "times as text"),
]
CATEGORIES = {"text", "large text", "view", "bytes", "large bytes", "codes", "versions", "ranges"}
CATEGORIES |= {"category", "category of numbers", "category of dates"}
CATEGORIES |= {"truth words", "odd words"}
TIMES = {"time": "time", "times as text": "time", "duration": "duration", "durations as text": "duration"}
TIMES |= {"duration, ms": "duration"}
TIMES |= {name: "date" for name in TYPES if name.startswith(("date", "moment", "far date", "far moment", "parts"))}
REFUSED = {"lists", "other dates", "amounts"}
NAMES = st.sampled_from(sorted(TYPES))
GAPS = st.sampled_from([0, 0, 0.2])
SEEDS = st.integers(0, 2**16)


def make_table(kinds, seed, lowest=0):
    """A table of a column of numbers, one of each name in `kinds`, a type and a share of gaps, and the label."""
    rng = np.random.default_rng(seed)
    columns = {"x": pa.array(rng.normal(size=N).round(3))}
    for name, (type_, gap) in kinds.items():
        kind, make, _ = TYPES[type_]
        values = [None if rng.random() < gap else make(int(k)) for k in rng.integers(lowest, 12, N)]
        array = pa.array(values, value_type(kind))
        columns[name] = array.dictionary_encode() if pa.types.is_dictionary(kind) else array
    shows = all(TYPES[type_][2] for type_, _ in kinds.values())
    return pa.table({**columns, "y": pa.array(np.arange(N) % 2)}), shows


@st.composite
def tables(draw):
    """A table of one or two types, and whether a CSV shows them."""
    names = draw(st.lists(NAMES, min_size=1, max_size=2, unique=True))
    return make_table({name: (name, draw(GAPS)) for name in names}, draw(SEEDS))


def as_pandas(table):
    return table.drop_columns("y").to_pandas()


def as_arrow_dtypes(table):
    return table.drop_columns("y").to_pandas(types_mapper=pd.ArrowDtype)


def as_dask(table):
    with dask.config.set({"dataframe.convert-string": False}):  # Dask itself would make text of objects
        return dd.from_pandas(as_pandas(table), npartitions=1)


def as_turned_dask(table):
    """A partition whose columns stand in another order than Dask has been told."""
    frame = as_pandas(table)
    turned = frame[frame.columns[::-1]]
    with dask.config.set({"dataframe.convert-string": False}):
        return dd.from_map(lambda _: turned, [0], meta=frame.iloc[:0], enforce_metadata=False)


FRAMES = [as_pandas, as_arrow_dtypes, as_dask, as_turned_dask]


def as_stream(table):
    return pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=20))


def write_parquet(table, folder):
    pq.write_table(table, folder / "t.parquet")
    return folder / "t.parquet"


def write_csv(table, folder):
    table = table.set_column(
        0, "x", pa.array([f"{v:.3f}" for v in table["x"].to_pylist()])
    )  # as many decimals as there are
    plain = pa.table({n: _as_csv_has_it(c) for n, c in zip(table.column_names, table.columns, strict=True)})
    arrow_csv.write_csv(plain, folder / "t.csv", arrow_csv.WriteOptions(quoting_style="needed"))
    return folder / "t.csv"


def _as_csv_has_it(column):
    kind = column.type
    if pa.types.is_dictionary(kind):
        return column.cast(kind.value_type)
    texts = is_bytes(kind) or pa.types.is_decimal(kind) or pa.types.is_string_view(kind)
    return column.cast(pa.string()) if texts else column


NOT_OF_NUMPY = (
    pa.types.is_null, pa.types.is_nested, pa.types.is_decimal, pa.types.is_time,
    pa.types.is_string_view, pa.types.is_dictionary,
)  # fmt: skip


def write_npz(table, folder):
    """Arrays of a value a row; None where numpy has no type for gaps, zones or decimals, or nothing reads them."""
    kinds = [column.type for column in table.columns]
    if (
        not has_leaf("arrays")
        or any(column.null_count for column in table.columns)
        or any(any(is_(k) for is_ in NOT_OF_NUMPY) or getattr(k, "tz", None) for k in kinds)
    ):
        return None
    arrays = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        values = column.to_numpy()
        arrays[name] = values.astype("M8[D]") if pa.types.is_date(column.type) else values
        if values.dtype == object and arrays[name] is values:
            arrays[name] = np.array(values.tolist())
    np.savez(folder / "t.npz", **arrays)
    return folder / "t.npz"


def outcome_of(use, in_words=True):
    """What a use by one door comes to, or the words of the refusal without the place and the last remedy.

    Without words, whether a refusal says that it is about a column.
    """
    try:
        return use()
    except DKernelError as error:
        said = str(error)
    if not in_words:
        return "refused", bool(re.search("^y |column|label", said, re.IGNORECASE))
    said = re.sub(r" \(Or .*|(leave it|exclude it|or give it).*", "", said[said.find("column") :])
    return "refused", re.sub(r"\W", "", said)  # signs are of the option's spelling


def describe(machine):
    return machine.schema_, compute_digest(machine.model_)


def fit(*rows, eval_set=None, **settings):
    return dkernel.KernelClassifier(**SETTINGS | settings).fit(*rows, eval_set=eval_set)


def give_frame(frame, table=None):
    """A frame and its labels, those of a table or 0 and 1."""
    y = pd.Series(np.arange(N) % 2, name="y") if table is None else table["y"].to_pandas()
    with dask.config.set({"dataframe.convert-string": False}):
        return frame, dd.from_pandas(y, npartitions=1) if isinstance(frame, dd.DataFrame) else y


def fit_frame(frame):
    return fit(*give_frame(frame))


def fit_file(path, **more):
    return fit(dkernel.open_source(path, label="y"), **more)


def write_files(table, shows, folder):
    """The files of all formats that have the types of the table."""
    files = [write_parquet(table, folder), write_npz(table, folder), write_csv(table, folder) if shows else None]
    return [path for path in files if path is not None]


def find_odd(found):
    """The outcomes of doors that are not that of the first."""
    first = next(iter(found.values()))
    return {name: each for name, each in found.items() if each != first}, first


def check_schema(table, schema):
    """The schema has the type of each column, its gaps, and the words of a category as they stand."""
    for name in table.column_names[1:-1]:
        values = [value for value in table[name].to_pylist() if value not in (None, "")]
        assert schema[name].type == ("category" if name in CATEGORIES else TIMES.get(name, "number")), name
        assert schema[name].missing == round(1 - len(values) / N, 6), name
        if name in CATEGORIES:
            words = {value.decode() if isinstance(value, bytes) else str(value) for value in values}
            assert set(schema[name].levels) == words, name


@examples(40)
@given(tables())
def test_the_same_rows_make_one_model_or_are_refused_in_the_same_words(tmp_path_factory, drawn):
    table, shows = drawn
    files = write_files(table, shows, tmp_path_factory.mktemp("gate"))
    doors = {path.suffix: lambda path=path: describe(fit_file(path)) for path in files}
    doors |= {make.__name__: lambda make=make: describe(fit_frame(make(table))) for make in FRAMES}
    doors["stream"] = lambda: describe(fit(as_stream(table), "y"))
    odd, first = find_odd({name: outcome_of(use) for name, use in doors.items()})
    assert not odd, first
    assert (first[0] == "refused") == bool(REFUSED.intersection(table.column_names)), first
    if first[0] != "refused":
        check_schema(table, first[0])


TUNED = {name: value for name, value in SETTINGS.items() if name != "alpha"}


def tune(*rows):
    machine = dkernel.KernelClassifier(**TUNED)
    return describe(dkernel.Tuner(machine, {"alpha": [1e-3, 1.0]}, budget="1passes").fit(*rows).best_estimator_)


def tune_file(path):
    out = path.parent / "tuned"
    words = [f"--{name.replace('_', '-')}={value}" for name, value in TUNED.items()]
    run(
        "tune",
        path,
        "--label",
        "y",
        *words,
        "--grid",
        "alpha=0.001|1",
        "--budget",
        "1passes",
        "--out",
        out,
        "--overwrite",
    )
    return describe(dkernel.load(out))


@examples(4)
@given(tables())
def test_the_same_rows_are_tuned_alike(tmp_path_factory, drawn):
    table, shows = drawn
    files = write_files(table, shows, tmp_path_factory.mktemp("gate"))
    doors = {path.suffix: lambda path=path: tune_file(path) for path in files}
    doors |= {make.__name__: lambda make=make: tune(*give_frame(make(table))) for make in FRAMES}
    doors["source"] = lambda: tune(dkernel.open_source(files[0], label="y"))
    odd, first = find_odd({name: outcome_of(use) for name, use in doors.items()})
    assert not odd, first


# scikit-learn refuses fractions in memory as classes.
FRACTIONS = {"float32", "float64", "decimal", "far decimal"}


@pytest.mark.parametrize("name", sorted(TYPES))
def test_labels_of_a_type_are_the_same_by_any_door(tmp_path_factory, name):
    machine = dkernel.KernelRegressor if name in FRACTIONS else dkernel.KernelClassifier
    kind, make, shows = TYPES[name]
    labels = pa.array([make(k % 3) for k in range(N)], value_type(kind))
    labels = labels.dictionary_encode() if pa.types.is_dictionary(kind) else labels
    table = pa.table({"x": pa.array(np.arange(N) / 4), "y": labels})

    def learn(*rows):
        return describe(machine(**SETTINGS).fit(*rows))

    shows = shows and name not in {*TIMES, *REFUSED}  # where a label of a CSV is text, other files say what it is
    files = write_files(table, shows, tmp_path_factory.mktemp("labels"))
    doors = {path.suffix: lambda path=path: learn(dkernel.open_source(path, label="y")) for path in files}
    doors |= {make.__name__: lambda make=make: learn(*give_frame(make(table), table)) for make in (as_pandas, as_dask)}
    doors["stream"] = lambda: learn(as_stream(table), "y")
    odd, first = find_odd({name: outcome_of(use, in_words=False) for name, use in doors.items()})
    assert not odd, first


@examples(10)
@given(tables())
def test_a_transformer_takes_the_same_rows_alike(tmp_path_factory, drawn):
    table, _ = drawn
    numbers, source = as_pandas(table), write_parquet(table.drop_columns("y"), tmp_path_factory.mktemp("gate"))

    machine = dkernel.NystromFeatures("gaussian", gamma=1.0, n_components=6)

    def transform(X):
        return np.asarray(machine.fit(X).transform(numbers)).tobytes()

    doors = {make.__name__: lambda make=make: transform(make(table)) for make in FRAMES}
    doors["source"] = lambda: transform(
        dkernel.open_source(source, dtype="float64", categorical="none", missing="error")
    )
    odd, first = find_odd({name: outcome_of(use, in_words=False) for name, use in doors.items()})
    assert not odd, first


def scores_of(frame, machine):
    """The score of each row, and which classes its set holds."""
    found = dask.compute(machine.decision_function(frame), machine.predict_set(frame))
    return np.column_stack(list(map(np.asarray, found))).astype(np.float64)


def scores_of_file(path, machine, folder):
    out = folder / f"{path.suffix[1:]}.scores.parquet"
    dkernel.score(machine, str(path), str(out), exclude=["y"], write=["score", "set"], overwrite=True)
    return read_scores(out)


def scores_of_source(source, machine, folder):
    out = folder / "source.scores.parquet"
    dkernel.score(machine, source, str(out), write=["score", "set"], overwrite=True)
    return read_scores(out)


def read_scores(out):
    return pq.read_table(out).to_pandas().to_numpy(np.float64)


@examples(50)
@given(tables())
def test_a_model_scores_the_same_rows_alike_by_any_door(tmp_path_factory, drawn):
    table, shows = drawn
    folder = tmp_path_factory.mktemp("gate")
    path = write_parquet(table, folder)
    try:
        machine = fit_file(path)
    except DKernelError:
        return
    expected = scores_of(as_pandas(table), machine)
    for make in FRAMES:
        np.testing.assert_array_equal(scores_of(make(table), machine), expected, err_msg=make.__name__)
    for file in write_files(table, shows, folder):
        np.testing.assert_array_equal(scores_of_file(file, machine, folder), expected, err_msg=file.name)


@pytest.mark.parametrize("twins", TWINS, ids=str)
@examples(2)
@given(GAPS, SEEDS)
def test_equal_values_of_another_type_score_alike(tmp_path_factory, twins, gap, seed):
    alike = [make_table({"c": (name, gap)}, seed) for name in twins]
    folder = tmp_path_factory.mktemp("twins")
    machines = [fit_frame(as_pandas(table)) for table, _ in alike]
    expected = scores_of(as_pandas(alike[0][0]), machines[0])
    for machine in machines:
        for table, shows in alike:
            for make in FRAMES:
                np.testing.assert_array_equal(scores_of(make(table), machine), expected, err_msg=make.__name__)
            for file in write_files(table, shows, folder):
                np.testing.assert_array_equal(scores_of_file(file, machine, folder), expected, err_msg=file.name)


def write_pandas_csv(table, folder):
    table.to_pandas().to_csv(folder / "t.csv", index=False)
    return folder / "t.csv"


def write_folders(table, folder):
    pq.write_to_dataset(table, folder / "keys", ["c"])
    return folder / "keys"


# Durations are numbers without a unit there, or letters.
NOT_IN_NAMES = {"duration", "duration, ms", "lists", "nothing", "bytes", "large bytes", "odd words"}


@pytest.mark.parametrize("name", sorted(TYPES.keys() - {"lists"}))
def test_a_named_category_is_the_same_by_any_door(tmp_path_factory, name):
    """Learned by one door and read by another it has no value that training never saw."""
    table, shows = make_table({"c": (name, 0.2)}, 0)
    table = table.set_column(0, "x", pa.array(np.arange(N) / 4)).drop_columns("y")
    writers = [write_parquet] + ([write_csv] if shows and "bytes" not in name else [])
    writers += [write_pandas_csv] if (shows or name in TIMES) and "bytes" not in name else []
    writers += [] if name in NOT_IN_NAMES else [write_folders]
    files = [write(table, tmp_path_factory.mktemp(write.__name__)) for write in writers]
    opened = [partial(dkernel.open_source, path, dtype="float32") for path in files]
    with dask.config.set({"dataframe.convert-string": False}):
        frames = [table.to_pandas(), table.to_pandas(types_mapper=pd.ArrowDtype), dd.from_pandas(table.to_pandas(), 3)]
    opened += [partial(from_arrays, frame, missing="indicator") for frame in frames]
    for learned in opened[::2]:
        encoding = learned(categorical=("c",)).encoding
        inputs = [inputs_of(read(encoding=encoding))[1] for read in opened]
        for found in inputs:
            np.testing.assert_array_equal(found[np.argsort(found[:, 0])], inputs[0])


def run(*words):
    """A command on files; its refusals are errors, and its output is the answer."""
    done = CliRunner().invoke(main, [*map(str, words), "--quiet"])
    assert done.exit_code in (0, 65), done.output
    if done.exit_code:
        raise DKernelError(done.stderr)
    return done.stdout


@dataclass(frozen=True)
class NewRows:
    """The uses of rows that follow a fit, in Python of a frame or a source, and by the command of a file."""

    folder: Path
    train: Path
    scale: str
    machine: Any

    def update(self, X, y=None):
        return describe(dkernel.load(self.folder / "m").partial_fit(X, y))

    def update_file(self, path):
        if self.machine.model_.encoding is None:  # the command learns all rows at once, partial_fit as they come
            return self.update(dkernel.open_source(path, label="y"))
        return self._rewrite("update", self.folder / "m", path)

    def conformalize(self, *rows):
        return describe(dkernel.load(self.folder / "m").conformalize(*rows))

    def conformalize_file(self, path):
        return self._rewrite("conformalize", self.folder / "m", path)

    def judge(self, X, y=None):
        return describe(fit_file(self.train, scale=self.scale, eval_set=X if y is None else (X, y)))

    def judge_file(self, path):
        words = [f"--{name.replace('_', '-')}={value}" for name, value in SETTINGS.items()]
        words.append(f"--scale={self.scale}")
        return self._rewrite("train", self.train, "--label", "y", *words, "--baselines", "off", "--eval-set", path)

    def predict(self, X, y=None):  # noqa: ARG002
        if isinstance(X, Source):
            return scores_of_source(X, self.machine, self.folder).tobytes()
        return scores_of(X, self.machine).tobytes()

    def predict_file(self, path):
        return scores_of_file(path, self.machine, self.folder).tobytes()

    def evaluate(self, *rows):
        return self.machine.score(*rows)

    def evaluate_file(self, path):
        return json.loads(run("evaluate", self.folder / "m", path, "--json"))["accuracy"]

    def _rewrite(self, *words):
        run(*words, "--out", self.folder / "u", "--overwrite")
        return describe(dkernel.load(self.folder / "u"))


USES = ["update", "conformalize", "judge", "evaluate", "predict"]


def find_odd_doors(tmp_path_factory, use, train, new, scale="standard"):
    """The doors at which rows are used as by no frame, of a model that was fitted to others; each (type, gaps, seed).

    The values of the new rows may begin later.
    """
    table, _ = make_table({"c": train[:2]}, train[2])
    new, shows = make_table({"c": new[:2]}, new[2], lowest=new[3])
    folder = tmp_path_factory.mktemp("uses")
    path = write_parquet(table, tmp_path_factory.mktemp("train"))
    try:
        machine = fit_file(path, scale=scale)
    except DKernelError:
        return {}, None
    dkernel.save(machine, folder / "m")
    rows, files = NewRows(folder, path, scale, machine), write_files(new, shows, folder)
    in_python, by_file = getattr(rows, use), getattr(rows, f"{use}_file")
    doors = {make.__name__: lambda make=make: in_python(*give_frame(make(new))) for make in FRAMES}
    doors |= {path.suffix: lambda path=path: by_file(path) for path in files}
    with suppress(DKernelError):  # a source is opened by what its rows say, and read by what the model says
        source = dkernel.open_source(files[0], label="y")
        doors |= {"source": lambda: in_python(source)} if use in ("update", "judge", "predict") else {}
    return find_odd({name: outcome_of(use, in_words=False) for name, use in doors.items()})


@pytest.mark.parametrize(("use", "scale"), every_two(USES, ["standard", "none"]))
@examples(8)
@given(data=st.data())
def test_new_rows_are_used_alike_by_any_door_or_refused(tmp_path_factory, use, scale, data):
    """Types of the training and of the new rows are the same or others; their values begin later."""
    kind = data.draw(NAMES)
    other = data.draw(st.sampled_from([kind, data.draw(NAMES)]))
    train = kind, data.draw(GAPS), data.draw(SEEDS)
    new = other, data.draw(GAPS), data.draw(SEEDS), data.draw(st.integers(0, 10))
    odd, first = find_odd_doors(tmp_path_factory, use, train, new, scale)
    assert not odd, first


FOUND = [
    ("update", "uint64", 0, "uint64", 0.2),
    ("predict", "int64", 0, "category of numbers", 0),
    ("predict", "bool", 0.2, "view", 0.2),
    ("judge", "bool", 0, "uint64", 0),
]


@pytest.mark.parametrize(("use", "kind", "gaps", "other", "new_gaps"), FOUND)
def test_pairs_of_types_that_were_once_used_otherwise(tmp_path_factory, use, kind, gaps, other, new_gaps):
    odd, first = find_odd_doors(tmp_path_factory, use, (kind, gaps, 1), (other, new_gaps, 2, 0))
    assert not odd, first


@pytest.mark.slow
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("kind", sorted(TYPES))
def test_each_type_after_each_other_is_used_alike_by_any_door(tmp_path_factory, use, kind):
    gaps = 0.2 * (USES.index(use) % 2)
    found = {o: find_odd_doors(tmp_path_factory, use, (kind, gaps, 1), (o, gaps, 2, 0)) for o in sorted(TYPES)}
    assert {other: odd for other, (odd, _) in found.items() if odd} == {}


def inputs_of(source):
    """The encoding of a source, and its inputs of all rows."""
    blocks = [block for unit in source.units for block in unit.task.compute(scheduler="sync")]
    return source.encoding, np.concatenate([block.X for block in blocks])


def open_files(parts, folder, write):
    """The source of a file for each part."""
    for number, part in enumerate(parts):
        path = write(part, folder)
        path.rename(folder / f"{number}{path.suffix}")
    return dkernel.open_source(folder, label="y", holes=True)


def open_groups(parts, folder):
    """The source of one file of Parquet with a group of rows for each part."""
    with pq.ParquetWriter(folder / "t.parquet", parts[0].schema) as writer:
        for part in parts:
            writer.write_table(part)
    return dkernel.open_source(folder / "t.parquet", label="y", holes=True)


def open_partitions(parts, _):
    """The source of a Dask frame with a partition for each part."""
    frames = [as_pandas(part) for part in parts]
    with dask.config.set({"dataframe.convert-string": False}):
        frame = dd.from_map(lambda i: frames[i], range(len(parts)), meta=frames[0].iloc[:0], enforce_metadata=False)
    y = dd.from_map(lambda i: parts[i]["y"].to_pandas(), range(len(parts)), meta=pd.Series([], name="y", dtype=int))
    return from_arrays(frame, y, categorical="auto", missing="indicator", holes=True)


@examples(50)
@given(tables(), st.lists(st.integers(0, N), min_size=1, max_size=3), st.data())
def test_other_parts_in_any_order_have_the_same_schema_and_inputs(tmp_path_factory, drawn, cuts, data):
    table, shows = drawn
    edges = sorted([0, *cuts, N])  # a part may be empty
    order = data.draw(st.permutations(range(len(edges) - 1)))
    parts = [table[edges[i] : edges[i + 1]] for i in order]
    ways = [partial(open_files, write=write_parquet), open_groups, open_partitions]
    ways += [partial(open_files, write=write_csv)] if shows else []
    whole = outcome_of(lambda: inputs_of(open_files([table], tmp_path_factory.mktemp("whole"), write_parquet)), False)
    for way in ways:
        found = outcome_of(lambda way=way: inputs_of(way(parts, tmp_path_factory.mktemp("parts"))), False)
        assert found[0] == whole[0], way
        rows = np.concatenate([np.arange(edges[i], edges[i + 1]) for i in order])
        assert found[0] == "refused" or (found[1].tobytes() == whole[1][rows].tobytes()), way


@given(NAMES, NAMES, GAPS, SEEDS)
def test_parts_of_two_types_are_one_in_any_order_or_refused(tmp_path_factory, one, other, gap, seed):
    parts = [make_table({"c": (name, gap)}, seed)[0] for name in (one, other)]
    ways = [partial(open_files, write=write_parquet)]
    ways += (
        [] if any(name.startswith("category") for name in (one, other)) else [open_partitions]
    )  # Dask says of all parts whether they are one
    sources = {
        (way, turned): outcome_of(
            lambda way=way, some=some: way(some, tmp_path_factory.mktemp("mixed")).encoding, False
        )
        for way in ways
        for turned, some in enumerate([parts, parts[::-1]])
    }
    odd, first = find_odd(sources)
    assert not odd, first
