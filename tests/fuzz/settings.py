"""Random settings over made and real data: a fit succeeds or is refused by type, and every face gives its answers."""

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import dkernel
from dkernel import KernelClassifier, KernelRegressor
from dkernel.errors import DKernelError
from tests.fuzz import datasets, draws
from tests.fuzz.commands import Answer, check_error, command
from tests.fuzz.datasets import LABEL, WEIGHT, Dataset
from tests.fuzz.faces import check_faces
from tests.fuzz.sessions import Case

COMPARED = 0.5  # share of the fits by the command that an estimator repeats, of those that it can
FILED = 0.3  # share of the models that score and evaluate a file too
# No data of this room are a reason for these.
NEVER = ("Cholesky", "was given no landmarks", "should not happen")


def run(case: Case, folder: Path) -> str:
    """Draw data and settings, fit by the command or by an estimator, and compare every interface of the model."""
    name, rows, weights, labels, seed = datasets.drawn(case.rng)
    case.say(f"data: {name}, {rows} rows, weights {weights}, labels {labels}")
    data = datasets.dataset(name, rows, weights, labels, seed)
    settings = draws.settings(case.rng, data.regresses, data.nonnegative, np.unique(data.y).tolist()[:3])
    data.write(folder / "train.parquet", max(case.rng.choice((37, 200, 1000, 5000)), len(data.X) // 40))
    data.write_test(folder / "test.parquet")
    compared, filed = case.rng.random() < COMPARED, case.rng.random() < FILED
    by_command = not any(name in settings for name in draws.ESTIMATOR_ONLY)
    case.say(f"settings{'' if by_command else ' of an estimator'}: {settings}")
    try:
        machine = _by_command(case, data, settings, folder) if by_command else _by_estimator(case, data, settings)
    except DKernelError as error:
        return _refused(error)
    if isinstance(machine, Answer):
        return _refused(machine)
    if not by_command:
        dkernel.save(machine.model_, folder / "m.safetensors")
    try:
        scores = check_faces(machine, dkernel.load(folder / "m.safetensors"), data.test)
    except DKernelError as error:  # a kernel of counts, and rows beyond those of the training
        return f"fitted, rows {_refused(error)}"
    same = by_command and compared and _compare(data, settings, folder)
    if filed := filed and list(machine.model_.columns) == list(data.test):  # not of rows without names
        _check_files(data, folder, scores[:, 0])
    return f"fitted{', and again by an estimator' if same else ''}{', and files scored' if filed else ''}"


def _refused(found: Any) -> str:
    """The kind of a refusal: its type, and the message without its numbers and names."""
    kind, message = (found.error, found.message) if isinstance(found, Answer) else (type(found).__name__, str(found))
    check_error(kind, message)
    for text in NEVER:
        assert text not in message, f"refused with {kind}: {message}"
    line = message.splitlines()[0]
    line = re.sub(r"\S*/\S+", "PATH", re.sub(r"'[^']*'|\"[^\"]*\"", "'...'", line))
    line = re.sub(r"\b[A-Z]\w+\(.*\)", "KERNEL", line)
    return f"refused: {kind}: {re.sub(r'-?[0-9][0-9.,e+-]*', '#', line)[:90]}"


def _by_command(case: Case, data: Dataset, settings: dict[str, Any], folder: Path) -> Any:
    """The machine with the model that the command wrote, or its refusal."""
    words = [w for name, value in settings.items() for w in (f"--{name.replace('_', '-')}", value)]
    words += ["--weight", WEIGHT] if data.weight is not None else []
    words += ["--baselines", "linear" if case.rng.random() < 0.1 else "off", "--progress", "none", "--json"]
    found = command("train", folder / "train.parquet", "--label", LABEL, "--out", folder / "m.safetensors", *words)
    if found.code:
        assert not (folder / "m.safetensors").exists(), "a model beside an error"
        return found
    return dkernel.load(folder / "m.safetensors")


def _estimator(data: Dataset, settings: dict[str, Any]) -> Any:
    given = {name: value for name, value in settings.items() if name not in (*draws.COMMAND_ONLY, "positive")}
    given |= {"random_state": settings["seed"]} if "seed" in settings else {}
    if data.regresses or settings.get("task") == "regress":
        return KernelRegressor(**{name: v for name, v in given.items() if name not in ("class_weight", "calibration")})
    return KernelClassifier(**given)


def _by_estimator(case: Case, data: Dataset, settings: dict[str, Any]) -> Any:
    """An estimator that was fitted to what is in memory: of few rows mostly the exact solver."""
    machine = _estimator(data, settings)
    X = data.X if case.rng.random() < 0.5 else data.X.to_numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return machine.fit(X, data.y.to_numpy(), data.weight)


def _compare(data: Dataset, settings: dict[str, Any], folder: Path) -> bool:
    """An estimator on the same file makes the same recipe and the same bytes; False where it has not the words."""
    if any(name in settings for name in ("holdout", "holdout_by", "dtype", "positive", "categorical")):
        return False
    model = dkernel.load(folder / "m.safetensors").model_
    machine = _estimator(data, {**settings, "loss": model.recipe.loss, "task": model.task})
    source = dkernel.open_source(folder / "train.parquet", label=LABEL,
                                 weight=WEIGHT if data.weight is not None else None)  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        machine.fit(source)
    again = machine.model_.recipe
    assert again == model.recipe, f"the estimator's recipe: {again}\n{model.recipe}"
    dkernel.save(machine.model_, folder / "e.safetensors")
    same = (folder / "e.safetensors").read_bytes() == (folder / "m.safetensors").read_bytes()
    assert same, "the estimator's model has other bytes than the command's"
    return True


def _check_files(data: Dataset, folder: Path, expected: np.ndarray) -> None:
    """The files that `score` writes hold the answers, and `evaluate` gives finite figures."""
    form = ("parquet", "csv")[len(data.X) % 2]
    out = folder / f"scores.{form}"
    found = command("score", folder / "m.safetensors", folder / "test.parquet", "--out", out, "--json", "--quiet")
    assert found.code == 0, f"score: {found.message}"
    table = pd.read_parquet(out) if form == "parquet" else pd.read_csv(out)
    assert len(table) == len(data.test), f"score wrote {len(table)} rows of {len(data.test)}"
    column = next(name for name in table if name.startswith("score"))
    written = table[column].to_numpy()
    assert np.array_equal(written, expected.astype(written.dtype)) or np.array_equal(
        written.astype(expected.dtype), expected
    ), f"the scores in {out.name} are not those of the estimator"
    weight = ["--weight", WEIGHT] if data.weight is not None else []
    figures = command("evaluate", folder / "m.safetensors", folder / "train.parquet", *weight, "--json")
    assert figures.code == 0, f"evaluate: {figures.message}"
