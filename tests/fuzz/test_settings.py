"""Random settings over made and real data: a fit succeeds or is refused by type, and every face gives its answers."""

import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

import dkernel
from dkernel import KernelClassifier, KernelRegressor
from dkernel.cli.exit_codes import public_name
from dkernel.errors import DKernelError
from dkernel.model.recipe import Recipe
from tests.combinations import examples
from tests.fuzz import datasets, draws
from tests.fuzz.commands import check_error, command
from tests.fuzz.datasets import LABEL, WEIGHT, Dataset
from tests.fuzz.faces import check_faces

pytestmark = pytest.mark.filterwarnings("ignore")  # as in the commands

# No data of this room are a reason for these.
NEVER = ("Cholesky", "was given no landmarks", "should not happen")
# What an estimator may be given beside a Source, which has its own reading of columns.
OF_A_SOURCE = {"task", "seed", *KernelClassifier().get_params()} - {"missing", "dates", "formats"}
KINDS = (st.sampled_from(datasets.WEIGHTS), st.sampled_from(datasets.LABELS), st.integers(0, 999_999))


@pytest.mark.usefixtures("batches")
@examples(10)
@given(st.sampled_from([*datasets.MADE]), st.integers(50, 400) | st.integers(50, 3000), *KINDS, st.data())
def test_settings_of_made_data(name, rows, weights, labels, seed, data):
    try_settings(datasets.dataset(name, rows, weights, labels, seed), data.draw)


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.skipif(not datasets.REAL.is_dir(), reason=f"needs {datasets.REAL}")
@examples(20)
@given(st.sampled_from(datasets.REAL_SETS), st.integers(50, 20_000), *KINDS, st.data())
def test_settings_of_real_data(name, rows, weights, labels, seed, data):
    try_settings(datasets.dataset(name, rows, weights, labels, seed), data.draw)


def test_every_parameter_is_drawn_or_named():
    """The settings know no list of their own: what the recipe learns is drawn too."""
    assert {"kernel", *draws.PARAMETERS, *draws.NOWHERE} == set(Recipe.__dataclass_fields__)


def try_settings(data: Dataset, draw: Any) -> None:
    """Fit by the command or by an estimator, and compare every interface of the model."""
    settings = draw(draws.settings(data.regresses))
    group = draw(st.sampled_from([5000, 37, 200, 1000]))
    with TemporaryDirectory() as name:
        folder = Path(name)
        data.write(folder / "train.parquet", max(group, len(data.X) // 40))
        data.write_test(folder / "test.parquet")
        try:
            if by_command := "class_weight" not in settings:
                machine = fit_by_command(data, settings, folder, draw(st.sampled_from(["off", "linear"])))
            else:
                machine = fit_by_estimator(data, settings, folder, draw(st.booleans()))
            if machine is None:
                return
            scores = check_faces(machine, dkernel.load(folder / "m.safetensors"), data.test)
        except DKernelError as error:  # also of rows beyond those of the training, by a kernel of counts
            refuse(public_name(error), str(error))
            return
        event("fitted")
        if by_command and {*settings} <= OF_A_SOURCE and draw(st.booleans()):
            compare_estimator(data, settings, folder)
        if list(machine.model_.columns) == list(data.test) and draw(st.booleans()):  # not of rows without names
            check_files(data, folder, scores[:, 0], draw(st.sampled_from(["parquet", "csv"])))


def refuse(kind: str, message: str) -> None:
    """Count a refusal by its type and its message without numbers and names (--hypothesis-show-statistics)."""
    check_error(kind, message)
    assert not any(text in message for text in NEVER), f"refused with {kind}: {message}"
    line = re.sub(r"\S*/\S+", "PATH", re.sub(r"'[^']*'|\"[^\"]*\"", "'...'", message.splitlines()[0]))
    line = re.sub(r"\b[A-Z]\w+\(.*\)", "KERNEL", line)
    event(f"refused: {kind}: {re.sub(r'-?[0-9][0-9.,e+-]*', '#', line)[:90]}")


def fit_by_command(data: Dataset, settings: dict[str, Any], folder: Path, baselines: str) -> Any:
    """The machine with the model that the command wrote, or its refusal."""
    words = [w for name, value in settings.items() for w in (f"--{name.replace('_', '-')}", value)]
    words += ["--weight", WEIGHT] if data.weight is not None else []
    words += ["--baselines", baselines, "--progress", "none", "--json"]
    found = command("train", folder / "train.parquet", "--label", LABEL, "--out", folder / "m.safetensors", *words)
    if found.code:
        assert not (folder / "m.safetensors").exists(), "a model beside an error"
        refuse(found.error, found.message)
        return None
    return dkernel.load(folder / "m.safetensors")


def make_estimator(data: Dataset, settings: dict[str, Any]) -> Any:
    make = KernelRegressor if data.regresses or settings.get("task") == "regress" else KernelClassifier
    known = {name: value for name, value in settings.items() if name in make().get_params()}
    return make(random_state=settings.get("seed", 0), **known)


def fit_by_estimator(data: Dataset, settings: dict[str, Any], folder: Path, as_array: bool) -> Any:
    """An estimator that was fitted to what is in memory: of few rows mostly the exact solver."""
    X = data.X.to_numpy() if as_array else data.X
    machine = make_estimator(data, settings).fit(X, data.y.to_numpy(), data.weight)
    dkernel.save(machine.model_, folder / "m.safetensors")
    return machine


def compare_estimator(data: Dataset, settings: dict[str, Any], folder: Path) -> None:
    """An estimator on the same file makes the same recipe and the same bytes."""
    model = dkernel.load(folder / "m.safetensors").model_
    machine = make_estimator(data, {**settings, "loss": model.recipe.loss, "task": model.task})
    source = dkernel.open_source(folder / "train.parquet", label=LABEL,
                                 weight=WEIGHT if data.weight is not None else None)  # fmt: skip
    machine.fit(source)
    again = machine.model_.recipe
    assert again == model.recipe, f"the estimator's recipe: {again}\n{model.recipe}"
    dkernel.save(machine.model_, folder / "e.safetensors")
    same = (folder / "e.safetensors").read_bytes() == (folder / "m.safetensors").read_bytes()
    assert same, "the estimator's model has other bytes than the command's"


def check_files(data: Dataset, folder: Path, expected: np.ndarray, form: str) -> None:
    """The files that `score` writes hold the answers, and `evaluate` gives finite figures."""
    out = folder / f"scores.{form}"
    words = ["--write", "score", "--json", "--quiet"]
    found = command("score", folder / "m.safetensors", folder / "test.parquet", "--out", out, *words)
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
