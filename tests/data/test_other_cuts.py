"""The same rows in other files, chunks and partitions, or with rows of weight 0 between them, have the same inputs."""

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

from dkernel import KernelClassifier
from dkernel.data.collections.arrays import from_arrays
from dkernel.data.encoding import CategoryColumn
from dkernel.data.opening import open_source
from tests.combinations import every_two

COLUMNS = ["zip", "x", "s"]
TABLES = {"categorical": "auto", "missing": "indicator"}


def table(n=1500):
    """A category of 300 values with an effect each, a number with gaps and a category of three."""
    rng = np.random.default_rng(0)
    zips = rng.integers(0, 300, n)
    frame = pd.DataFrame({"zip": [f"z{i}" for i in zips], "x": rng.normal(size=n), "s": rng.choice([*"abc"], n)})
    effect = np.random.default_rng(7).normal(size=300)[zips]
    frame["number"] = effect + 0.3 * rng.normal(size=n)
    frame["sign"] = effect + np.sin(2 * frame["x"]) > 0
    frame.loc[::7, "x"] = np.nan
    return frame


def inputs(source):
    """The inputs of all rows, the means of every fold and the names, of which nothing may differ."""
    columns = [c for c in source.encoding.columns if isinstance(c, CategoryColumn)]
    return source.X.compute(scheduler="sync").tolist(), repr(source.encoding), [c.folds for c in columns]


@pytest.mark.parametrize(("label", "weighted"), every_two(["number", "sign"], [False, True]))
def test_inputs_do_not_depend_on_files_chunks_or_partitions(label, weighted, tmp_path):
    frame = table()
    frame["w"] = np.random.default_rng(3).integers(0, 7, len(frame)) / 2
    weight = "w" if weighted else None
    names = [*COLUMNS, label, *(["w"] if weighted else [])]
    lazy, two = dd.from_pandas(frame, npartitions=4), dd.from_pandas(frame, npartitions=2)

    def beside(one, other):
        return {"y": one, "weight": other if weighted else None}

    expected = inputs(from_arrays(frame[COLUMNS], **beside(frame[label], frame["w"]), **TABLES))
    assert "means=LabelMeans" in expected[1]
    sources = [
        from_arrays(lazy[COLUMNS], **beside(lazy[label], lazy["w"]), **TABLES),
        from_arrays(lazy[COLUMNS], **beside(two[label], two["w"]), **TABLES),
        from_arrays(lazy[COLUMNS], **beside(frame[label].to_numpy(), frame["w"].to_numpy()), **TABLES),
        from_arrays(frame[COLUMNS], **beside(two[label], two["w"]), **TABLES),
        from_arrays(frame[COLUMNS], **beside(frame[[label]], frame[["w"]]), **TABLES),
    ]
    for files in (1, 3, 40):
        folder = tmp_path / f"{files} files"
        folder.mkdir()
        for i, rows in enumerate(np.array_split(np.arange(len(frame)), files)):
            frame.iloc[rows][names].to_parquet(folder / f"{i:04}.parquet", index=False)
        sources.append(open_source(folder, label=label, weight=weight, dtype="float32"))
    frame[names].to_csv(tmp_path / "t.csv", index=False)
    sources.append(open_source(tmp_path / "t.csv", label=label, weight=weight, dtype="float32", scan_bytes=3000))
    for number, source in enumerate(sources):
        assert inputs(source) == expected, number


def test_files_of_one_row_have_means_of_the_label(tmp_path):
    frame = table(600)
    for i in range(len(frame)):
        frame.iloc[i : i + 1][[*COLUMNS, "number"]].to_parquet(tmp_path / f"{i:04}.parquet", index=False)
    assert "zip:mean" in open_source(tmp_path, label="number").columns


def test_rows_have_their_number_at_each_door_and_bad_rows_have_none(tmp_path):
    frame = table()
    extra = frame.sample(400, random_state=1).assign(number=1e3, zip="other", x=np.nan, w=0.0)
    order = np.random.default_rng(2).permutation(1900)
    mixed = pd.concat([frame.assign(w=1.0), extra]).iloc[order].reset_index(drop=True)
    alone = mixed[mixed["w"] > 0].reset_index(drop=True)
    expected = inputs(from_arrays(alone[COLUMNS], alone["number"], **TABLES))
    weighed = inputs(from_arrays(mixed[COLUMNS], mixed["number"], mixed["w"], **TABLES))
    counts = (mixed["w"] > 0).to_numpy()
    lazy = dd.from_pandas(mixed, npartitions=3)
    mixed[[*COLUMNS, "number", "w"]].to_parquet(tmp_path / "t.parquet", index=False, row_group_size=130)
    sources = [
        from_arrays(lazy[COLUMNS], lazy["number"], lazy["w"], **TABLES),
        open_source(tmp_path / "t.parquet", label="number", weight="w", dtype="float32"),
    ]
    for source in sources:
        assert inputs(source) == weighed
        assert weighed[1] == expected[1]
    mixed.assign(number=mixed["number"].where(counts)).to_csv(tmp_path / "t.csv", index=False)
    with pytest.warns(match="400 bad rows"):
        found = open_source(
            tmp_path / "t.csv", label="number", exclude=["w", "sign"], dtype="float32", max_bad_rows=400, scan_bytes=999
        )
    assert inputs(found) == expected


def test_rows_of_numbers_named_as_categories_are_counted_by_weight(tmp_path):
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 150, 9000)
    y = rng.normal(size=150)[codes] + 0.1 * rng.normal(size=9000)
    weight = rng.integers(0, 2, 9000)
    np.save(tmp_path / "t.npy", np.column_stack([codes, rng.normal(size=9000), weight, y]))
    found = open_source(tmp_path / "t.npy", label="-1", weight="2", categorical=["0"], dtype="float32")
    frame = pd.DataFrame(np.load(tmp_path / "t.npy")[:, :2], columns=["0", "1"])
    expected = from_arrays(frame, y, weight, **{**TABLES, "categorical": ("0",)})
    assert inputs(found) == inputs(expected)


def test_y_in_other_chunks_gives_the_same_machine():
    frame = table()
    lazy = dd.from_pandas(frame, npartitions=4)
    machine = KernelClassifier("gaussian", gamma=0.5, n_components=48, scale="standard")
    scores = [
        machine.fit(X[COLUMNS], y).decision_function(frame[COLUMNS])
        for X, y in (
            (frame, frame["sign"]),
            (lazy, lazy["sign"]),
            (lazy, lazy["sign"].repartition(npartitions=2)),
            (lazy, frame["sign"].to_numpy()),
        )
    ]
    for each in scores[1:]:
        np.testing.assert_array_equal(each, scores[0])


@pytest.mark.parametrize(("labels", "why"), [(["number", "twice"], "need one label"), ("noise", "do not predict")])
def test_a_category_without_means_of_the_label_is_named(labels, why):
    frame = table().assign(twice=0.0, noise=np.random.default_rng(4).normal(size=1500))
    found = from_arrays(frame[COLUMNS], frame[labels], **TABLES)
    assert found.notes["rare values"].startswith("zip: ")
    assert why in found.notes["rare values"]
    assert "rare values" not in from_arrays(frame[COLUMNS], frame["number"], **TABLES).notes
