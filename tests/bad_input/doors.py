"""The ways in which data come in, each tried with bad data: what it says, that it ends, and that it leaves nothing."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

import dkernel
from dkernel import KernelClassifier
from dkernel.errors import DKernelError
from dkernel.model.model import Model
from tests.bad_input.data import LABEL, NAMES, QUICK, SMALL, Make, frame, one


def lazy(values: Any, rows: int = 100, columns: int = -1) -> da.Array:
    """A Dask array of chunks of so many rows."""
    return da.from_array(values, chunks=(rows, columns)[: values.ndim])


def numpy_(values: Any, _: str) -> Any:
    return values


def pandas_(values: Any, name: str) -> Any:
    return pd.DataFrame(values, columns=NAMES[: values.shape[1]]) if values.ndim == 2 else pd.Series(values, name=name)


KINDS: dict[str, Callable[[Any, str], Any]] = {
    "numpy": numpy_,
    "pandas": pandas_,
    "dask": lambda values, _: lazy(values),
    "dask frame": lambda values, name: dd.from_pandas(pandas_(values, name), npartitions=4),
}


def quick(arguments: list[str]) -> list[str]:
    """The arguments of a quick fit, with the usual label where they name none."""
    return [*QUICK, *([] if "--label" in arguments else LABEL), *arguments]


@dataclass
class Doors:
    """The commands on files in `place`, and the estimators; counts what was refused and what was handled."""

    place: Path
    run: Callable[..., Any]
    model: Path
    refused: int = 0
    handled: int = 0
    caplog: Any = field(default=None, repr=False)
    used: int = 0

    # ------------------------------------------------------------------------------------------------ commands

    def folder(self) -> Path:
        """A new folder for the input of one command."""
        self.used += 1
        found = self.place / f"in-{self.used}"
        found.mkdir()
        return found

    def _refused(self, words: tuple[str, ...], *command: Any) -> None:
        out = self.place / "out"
        before = sorted(path.name for path in out.iterdir())
        result = self.run(*command, "--scratch", self.place / "scratch", "--progress", "none")
        assert result.exit_code == 65, result.output
        assert "Traceback" not in result.stderr
        lines = result.stderr.strip().splitlines()
        assert len(lines) == 1, result.stderr
        assert lines[0].startswith("dkernel ")
        for word in words:
            assert word in lines[0], f"{word!r} is not in {lines[0]!r}"
        assert not result.stdout or "--dry-run" in command  # which looks at the data all the same
        left = {path.name for path in out.iterdir() if not path.name.endswith("run.json")}
        assert left <= set(before)
        assert not [
            p.name for p in (self.place / "scratch").rglob("*") if p.suffix not in (".csv", ".svm", ".svmlight")
        ]
        self.refused += 1

    def asked_refuses(self, code: int, words: tuple[str, ...], *command: Any) -> None:
        """A command ends with this code, one line that holds the words, and nothing left behind."""
        out = self.place / "out"
        before = {path.name for path in out.iterdir()}
        result = self.run(*command)
        assert result.exit_code == code, result.output
        said = [
            line for line in result.stderr.strip().splitlines() if "Traceback" in line or line.startswith("dkernel ")
        ]
        assert len(said) == 1, result.stderr
        for word in words:
            assert word in said[0], f"{word!r} is not in {said[0]!r}"
        assert {path.name for path in out.iterdir() if not path.name.endswith("run.json")} <= before
        self.refused += 1

    def train_refuses(self, make: Make, *words: str) -> None:
        """train ends with 65, one line that holds the words, and nothing left behind."""
        self._refused(words, "train", *quick(make(self.folder())), "--out", "refused")

    def score_refuses(self, make: Make, *words: str, evaluate: bool = True) -> None:
        """score, to one kind of output after the other, and evaluate likewise."""
        arguments = make(self.folder())
        out = ("s.parquet", "s.csv", "s")[self.used % 3]
        self._refused(words, "score", self.model, *arguments, "--out", out)
        if evaluate:
            self._refused(words, "evaluate", self.model, *arguments)

    def score_rejects(self, make: Make, rows: int, *words: str) -> None:
        """score --max-bad-rows leaves one row out and lists it; with 0 allowed it refuses."""
        arguments, out = make(self.folder()), self.place / "out" / "kept.csv"
        allowed = ["--max-bad-rows", "1", "--overwrite", "--scratch", self.place / "scratch", "--quiet"]
        result = self.run("score", self.model, *arguments, "--out", out, *allowed)
        assert result.exit_code == 0, result.output
        assert len(pd.read_csv(out)) == rows
        (listed,) = out.parent.glob("kept*rejects*.csv")
        said = listed.read_text()
        assert len(said.splitlines()) >= 2
        for word in words:
            assert word in said, f"{word!r} is not in {said!r}"
        listed.unlink()
        self.handled += 1

    def trains(self, make: Make, *more: str) -> Model:
        """The model that train makes of it."""
        arguments = make(self.folder())
        result = self.run("train", *quick([*arguments, *more]), "--out", "m", "--overwrite", "--progress", "none",
                          "--scratch", self.place / "scratch")  # fmt: skip
        assert result.exit_code == 0, result.output
        self.said = result.stdout + result.stderr
        self.handled += 1
        return dkernel.load("m").model_

    def scores(self, make: Make, *more: str, model: Any = None) -> pd.DataFrame:
        """What score says of it."""
        result = self.run("score", model or self.model, *make(self.folder()), *more, "--out", "s.csv", "--overwrite",
                          "--quiet", "--scratch", self.place / "scratch")  # fmt: skip
        assert result.exit_code == 0, result.output
        self.handled += 1
        return pd.read_csv("s.csv")

    # ------------------------------------------------------------------------------------------------ estimators

    def fit_refuses(
        self, match: str, X: Any, y: Any, weight: Any = None, kinds: tuple[str, ...] = tuple(KINDS), machine: Any = None
    ) -> None:
        """fit raises one of dkernel's errors for every kind of collection, and stays unfitted."""
        for kind in kinds:
            made = machine() if machine else KernelClassifier(**SMALL)
            wrapped = [None if v is None else KINDS[kind](v, n) for v, n in ((X, "X"), (y, "y"), (weight, "w"))]
            with pytest.raises(DKernelError, match=match):
                made.fit(*wrapped)
            assert not hasattr(made, "model_")
            self.refused += 1

    def predict_refuses(self, match: str, X: Any, kinds: tuple[str, ...] = ("numpy", "dask")) -> None:
        """predict and decision_function raise, when they are computed at the latest."""
        for kind in kinds:
            for ask in (fitted_on_right_data().predict, fitted_on_right_data().decision_function):
                with pytest.raises(DKernelError, match=match):
                    np.asarray(ask(KINDS[kind](X, "X")))
                self.refused += 1

    def refuses(self, words: str, ask: Callable[[], Any]) -> None:
        """A call raises one of dkernel's errors, in these words."""
        with pytest.raises(DKernelError, match=words):
            ask()
        self.refused += 1

    def fits(self, X: Any, y: Any, weight: Any = None, **parameters: Any) -> KernelClassifier:
        """The machine that fit makes of it."""
        self.handled += 1
        return KernelClassifier(**{**SMALL, **parameters}).fit(X, y, weight)

    def regular(self) -> np.ndarray:
        """The coefficients of the fit on right data in chunks of a hundred rows."""
        data = frame(rows=400)
        return (
            KernelClassifier(**SMALL)
            .fit(lazy(data[NAMES].to_numpy()), lazy((data["label"] == "in").to_numpy()))
            .component_coef_
        )

    @contextmanager
    def logged(self, text: str) -> Iterator[None]:
        """The log says it inside the block, once."""
        self.caplog.clear()
        with self.caplog.at_level("INFO", "dkernel"):
            yield
        assert self.caplog.text.count(text) == 1


@cache
def fitted_on_right_data() -> KernelClassifier:
    """A machine fitted on data that are right."""
    data = frame(rows=400)
    return KernelClassifier(**SMALL).fit(data[NAMES].to_numpy(), (data["label"] == "in").to_numpy())


def learns(model: Model, rows: int = 500, suffix: str = "in") -> float:
    """Accuracy of a model of the ball on new rows."""
    data = frame(77, rows)
    found = model.predict(data[list(model.columns)].to_numpy(np.float32))
    return float(np.mean((found == suffix) == (data["label"] == "in")))


right = one(frame())
