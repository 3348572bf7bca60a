"""Bad inputs: files. Cut, empty, in another encoding, with rows that do not fit, changed while they are read."""

import gzip
import os
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dkernel.data.opening import open_source
from dkernel.errors import DataError
from dkernel.model.recipe import Recipe
from dkernel.streaming.execution.local import SerialExecutor
from dkernel.training.fit import train
from tests.bad_input.data import NAMES, ROWS, Make, frame, text, three, write
from tests.bad_input.doors import Doors
from tests.bad_input.table import BOTH, REFUSED, entries_of

bad = entries_of("files")
LABEL_OF_NPY = ["--task", "classify", "--label", "3"]


def _cut(name: str, least: int) -> Make:
    """A file without its last `least` bytes."""

    def make(folder: Path) -> list[str]:
        path = folder / name
        whole = path.with_suffix("") if name.endswith(".gz") else path
        write(frame(), whole)
        if name.endswith(".gz"):
            path.write_bytes(gzip.compress(whole.read_bytes()))
            whole.unlink()
        path.write_bytes(path.read_bytes()[:-least])
        return [str(path), *(LABEL_OF_NPY if name.endswith(".npy") else [])]

    return make


@bad("gz cut short", REFUSED, "the file is named; no row of it is used")
def cut_gz(at: Doors) -> None:
    for n in (1, 9, 500):
        at.train_refuses(_cut("x.csv.gz", n), "x.csv.gz")
    at.score_refuses(_cut("x.csv.gz", 9), "x.csv.gz")


@bad("Parquet cut short", REFUSED, "the file is named")
def cut_parquet(at: Doors) -> None:
    for n in (1, 9, 500):
        at.train_refuses(_cut("x.parquet", n), "x.parquet")
    at.score_refuses(_cut("x.parquet", 9), "x.parquet")


@bad("NPY cut short", REFUSED, "the file is named, with the bytes that are missing")
def cut_npy(at: Doors) -> None:
    for n in (1, 9, 500):
        at.train_refuses(_cut("x.npy", n), "x.npy", "truncated")


@bad("file of 0 bytes", BOTH, "refused, the file is named; a text among others is left out")
def zero_bytes(at: Doors) -> None:
    for name in ("a.parquet", "a.csv", "a.csv.gz", "a.npy", "a.npz", "a.h5", "a.svm"):
        at.train_refuses(text("", name), f"{name}: the file is empty")
    for name in ("a.parquet", "a.csv"):
        at.score_refuses(text("", name), f"{name}: the file is empty")
    folder = at.place / "parts"
    folder.mkdir()
    (folder / "0.csv").touch()
    write(frame(), folder / "1.csv")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        at.trains(lambda _: [str(folder)])
    assert "0.csv: the file is empty (0 bytes). It is left out" in at.said + str([each.message for each in told])


@bad("row with too few or too many values", REFUSED, "file and row are named", rejects=True)
def ragged(at: Doors) -> None:
    good = frame().to_csv(index=False)
    for row, n in (("1.0,2.0,in", 3), ("1.0,2.0,3.0,in,5", 5)):
        make = text(f"{good}{row}\n")
        at.train_refuses(make, f"x.csv, row {ROWS + 1}: {n} values where the header has 4")
        at.score_refuses(make, "x.csv, ", f"{n} values")
        at.score_rejects(make, ROWS, "x.csv", row)


@bad("UTF-16", BOTH, "refused; `--encoding utf-16` reads it")
def utf16(at: Doors) -> None:
    at.trains(text(frame().to_csv(index=False).encode("utf-16")), "--encoding", "utf-16")
    at.train_refuses(text(frame().to_csv(index=False).encode("utf-16")), "x.csv", "UTF-16", "UTF-8")
    at.train_refuses(text(frame().to_csv(index=False).encode("utf-16-le")), "x.csv", "UTF-16", "UTF-8")


@bad("Latin-1", BOTH, "refused; `--encoding latin-1` reads it")
def latin(at: Doors) -> None:
    data = frame()
    data.loc[200:240, "label"] = "hörn"
    read = at.trains(text(data.to_csv(index=False).encode("latin-1")), "--encoding", "latin-1")
    assert "hörn" in read.classes.tolist()
    at.train_refuses(text(data.to_csv(index=False).encode("latin-1")), "x.csv, row 201, column", "not UTF-8")
    header = data.rename(columns={"a": "ä"}).to_csv(index=False).encode("latin-1")
    at.train_refuses(text(header), "x.csv: the header is not UTF-8")


@bad("Zarr chunk that is not there", BOTH, "Zarr's own rule: it is full of the fill value; a damaged one is refused")
def zarr_chunk(at: Doors) -> None:
    import zarr

    data = frame()
    store = at.place / "x.zarr"
    group = zarr.open_group(store, mode="w")
    group.create_array("X", data=data[NAMES].to_numpy(np.float32), chunks=(100, 3), fill_value=0.0)
    group.create_array("label", data=(data["label"] == "in").to_numpy(), chunks=(ROWS,))
    chunk = next(path for path in sorted((store / "X").rglob("*")) if path.is_file() and "1" in path.parts[-2:])
    kept = chunk.read_bytes()
    chunk.unlink()
    model = at.trains(lambda _: [str(store)], "--solver", "psgd")
    assert model.facts["rows"] == ROWS
    source = open_source(store, label="label")
    rows = np.concatenate([b.X for unit in source.units for b in unit.task.compute(scheduler="sync")])
    assert (rows[100:200] == 0).all()
    chunk.write_bytes(kept[: len(kept) // 2])
    at.train_refuses(lambda _: [str(store)], "x.zarr", "damaged")


@bad("Parquet files of other columns or types", BOTH, "refused, both files are named; integers and floats go together")
def drift(at: Doors) -> None:
    renamed = three(".parquet", lambda f: f.__setitem__(1, f[1].rename(columns={"b": "bb"})))
    at.train_refuses(renamed, "part-1.parquet lacks 'b' and has 'bb' besides", "part-0.parquet")
    as_text = three(".parquet", lambda f: f.__setitem__(1, f[1].astype({"b": str})))
    at.train_refuses(as_text, "part-1.parquet", "'b'")
    labels = three(".parquet", lambda f: f.__setitem__(2, f[2].assign(label=1)))
    at.train_refuses(labels, "'label' holds", "part-2.parquet")
    whole = three(".parquet", lambda f: f.__setitem__(1, f[1].assign(b=lambda d: d["b"].round().astype("int32"))))
    assert at.trains(whole).facts["rows"] == 3 * ROWS


def _between_passes(at: Doors, act: object, said: str) -> None:
    """A fit whose file changes after the survey: an error before there is a model."""
    path = at.place / "x.parquet"
    write(pd.concat([frame(seed) for seed in range(3)]), path)
    source = open_source(path, label="label")
    recipe = Recipe(
        solver="psgd", kernel="gaussian", metric="identity", n_components=16, gamma=0.3, alpha=1e-4, scale="standard"
    )
    done = []

    class Spoiling(SerialExecutor):
        def compute(self, calls, ahead=()):
            found = super().compute(calls, ahead)
            if not done and any("survey" in call.key for call in calls):
                done.append(act(path))
            return found

    import dkernel.training.fit as module

    kept = module.BlockReader
    try:
        module.BlockReader = lambda executor, source, *_: kept(executor, source, False)  # read again, as large data are
        with pytest.raises(DataError, match=said):
            train(source, recipe, Spoiling())
        at.refused += 1
    finally:
        module.BlockReader = kept
    assert done


@bad("file changed between passes", REFUSED, "size or time differ: an error before the model is written")
def changed(at: Doors) -> None:
    _between_passes(at, lambda path: os.utime(path, ns=(1, 1)), "x.parquet: the file changed")


@bad("file gone between passes", REFUSED, "the file is named")
def gone(at: Doors) -> None:
    _between_passes(at, Path.unlink, "x.parquet: the file is gone")


@bad("nothing under that name", REFUSED, "a glob, a folder or a file that has or is nothing is named")
def nothing(at: Doors) -> None:
    at.train_refuses(lambda folder: [str(folder / "*.csv")], "*.csv")
    at.train_refuses(lambda folder: [str(folder)], "in-")
    at.train_refuses(lambda folder: [str(folder / "none.csv")], "none.csv")
    at.score_refuses(lambda folder: [str(folder / "none.csv")], "none.csv")


@bad("NPY of Python objects", REFUSED, "it could only be unpickled, which would run code: it is not")
def objects(at: Doors) -> None:
    ran = at.place / "ran"

    class Evil:
        def __reduce__(self) -> tuple:
            return os.mkdir, (str(ran),)

    def make(folder: Path) -> list[str]:
        np.save(folder / "x.npy", np.array([[Evil(), 1], [2, 3]], dtype=object), allow_pickle=True)
        return [str(folder / "x.npy"), "--label", "1"]

    at.train_refuses(make, "x.npy", "objects")
    assert not ran.exists()


@bad("quotes with a backslash in a CSV", REFUSED, "the row is named, and how Spark writes CSV")
def escaped_quotes(at: Doors) -> None:
    at.train_refuses(text('a,s,label\n1,"x",in\n2,"u\\"x",out\n'), "row 2", "backslash", "option('escape'")
