"""A fit that is stopped goes on from its checkpoint, to the bytes of a fit that nobody stopped."""

import os
import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from dkernel.data.opening import open_source
from dkernel.errors import ClusterError, DataError, DKernelWarning, RecipeError
from dkernel.numerics.fused import processor
from dkernel.solvers import sgd
from dkernel.solvers.sizes import MOST_ROUNDS
from dkernel.streaming import block_reader, read_groups
from dkernel.streaming.execution.local import SerialExecutor, ThreadsExecutor
from dkernel.streaming.progress import Progress
from dkernel.streaming.survey import Survey
from dkernel.training import checkpoint as checkpoints
from dkernel.training.checkpoint import EVERY, Checkpoint, FolderJournal
from dkernel.training.fit import train
from tests.training.fits import RECIPE, ROUNDS, a_source, digest, fit
from tests.training.test_same_bytes import CASES, reread, source  # noqa: F401 - a fixture


class Killed(BaseException):
    """Ends a fit as a signal does."""


@pytest.fixture
def stop_after(monkeypatch):
    """Lets the next fit end after so many steps of its passes; 0 for no such end."""
    reached, left = FolderJournal.save_state, [0]

    def counted(self, name, state):
        reached(self, name, state)
        left[0] -= 1
        if left[0] == 0:
            raise Killed

    monkeypatch.setattr(FolderJournal, "save_state", counted)
    return lambda steps: left.__setitem__(0, steps)


@pytest.fixture
def fit_until(stop_after):
    """A fit that is killed after so many steps of its passes; the next one is not."""

    def begin(steps, *given, **settings):
        stop_after(steps)
        with pytest.raises(Killed):
            fit(*given, **settings)

    return begin


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """sha256 of the model of the small fit, without a checkpoint."""
    return digest(fit(None), tmp_path_factory.mktemp("whole"))


def names(folder):
    return sorted(path.name.removeprefix("checkpoint-").split(".")[0] for path in folder.glob("*.safetensors"))


def test_a_checkpoint_changes_no_byte_and_leaves_the_result(tmp_path, whole):
    result = fit(tmp_path / "c")
    assert digest(result, tmp_path) == whole
    assert result.resumed is None
    assert names(tmp_path / "c") == ["result"]
    again = fit(tmp_path / "c")
    assert digest(again, tmp_path) == whole
    assert again.resumed == "its result"
    assert again.history == result.history
    assert again.chosen == result.chosen
    np.testing.assert_array_equal(again.holdout.X, result.holdout.X)


SOME, ALL = (1, 4, 5, ROUNDS, ROUNDS + 1), range(1, ROUNDS + 2)


@pytest.mark.parametrize("steps", [SOME, pytest.param(ALL, marks=pytest.mark.slow)], ids=["some", "all"])
def test_stopped_after_every_step_and_resumed(steps, tmp_path, whole, fit_until):
    for step in steps:
        folder = tmp_path / str(step)
        fit_until(step, folder)
        # What ends a fit and lets it clean up costs no round at all.
        result = fit(folder)
        assert result.resumed == (f"pass 1 round {step}/20" if step <= ROUNDS else "pass 2 round 0/20")
        assert digest(result, tmp_path) == whole, step


def test_stopped_again_and_again(tmp_path, whole, stop_after):
    ends = 0
    while True:
        stop_after(3)
        try:
            result = fit(tmp_path / "c")
        except Killed:
            ends += 1
            continue
        break
    # Rounds and their judgement, and then the readings of the polish and theirs.
    assert ends == (ROUNDS + 1 + result.model.facts["solver"]["passes"] + 1) // 3
    assert digest(result, tmp_path) == whole


ALWAYS = ("fourier", "targets", "sparse", "grids")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in ALWAYS else pytest.mark.slow) for name in CASES]
)
def test_every_kind_of_fit_goes_on_with_other_threads(name, tmp_path, fit_until):
    recipe = CASES[name][3].replace(rounds=8)
    expected = digest(train(source(name), recipe, SerialExecutor()), tmp_path)
    fit_until(11, tmp_path / "c", recipe=recipe, source=source(name))
    result = fit(tmp_path / "c", ThreadsExecutor(3), recipe=recipe, source=source(name))
    if name == "plain":  # the second fit of a trial
        assert result.resumed == "pass 1 round 2/8"
    else:
        assert result.resumed in ("pass 2 round 2/8", "step 2 of polish")  # the latter where one pass was enough
    assert digest(result, tmp_path) == expected


@pytest.mark.slow  # tests/faults/test_ends.py has a run that goes on with processes
@pytest.mark.cluster
def test_goes_on_with_processes(tmp_path, whole, fit_until, two_workers):
    fit_until(10, tmp_path / "c", ThreadsExecutor(2))
    result = fit(tmp_path / "c", two_workers)
    assert result.resumed == "pass 1 round 10/20"
    assert digest(result, tmp_path) == whole


@pytest.mark.parametrize("options", [{"landmarks": "kmeans"}, {"features": "fourier"}, {"alpha": "auto"}], ids=str)
def test_landmarks_by_a_rule_and_other_maps(options, tmp_path, fit_until):
    recipe = RECIPE.replace(rounds=4, **options)
    expected = digest(fit(None, recipe=recipe), tmp_path)
    fit_until(2, tmp_path / "c", recipe=recipe)
    assert ("landmarks" in names(tmp_path / "c")) == ("landmarks" in options)
    assert digest(fit(tmp_path / "c", recipe=recipe), tmp_path) == expected


def test_given_landmarks(tmp_path, fit_until):
    Z = np.random.default_rng(0).standard_normal((12, 6))
    expected = digest(fit(None, landmarks=Z), tmp_path)
    fit_until(2, tmp_path / "c", landmarks=Z)
    with pytest.raises(RecipeError, match="the given landmarks differ"):
        fit(tmp_path / "c", landmarks=Z + 1)
    assert digest(fit(tmp_path / "c", landmarks=Z), tmp_path) == expected


def test_passes_that_were_undone(tmp_path, monkeypatch, fit_until):
    monkeypatch.setattr(sgd, "WORSE_PASS", 0.0)
    recipe = RECIPE.replace(rounds=4)
    expected = digest(fit(None, recipe=recipe), tmp_path)
    for step in (2, 5, 7, 10, 14):
        fit_until(step, tmp_path / str(step), recipe=recipe)
        assert digest(fit(tmp_path / str(step), recipe=recipe), tmp_path) == expected, step


def test_sorted_rows_are_stored_again_after_a_kill(tmp_path, fit_until, request):
    recipe = CASES["sorted"][3]
    expected = digest(train(source("sorted"), recipe, SerialExecutor()), tmp_path)
    request.getfixturevalue("reread")()
    options = {"recipe": recipe, "source": source("sorted"), "scratch": str(tmp_path / "scratch")}
    fit_until(3, tmp_path / "c", **options)
    assert list((tmp_path / "scratch").iterdir()) == []  # the file of the rows has no name
    assert digest(fit(tmp_path / "c", **options), tmp_path) == expected


def test_what_is_said(tmp_path, fit_until, capsys):
    fit_until(6, tmp_path / "c", progress=Progress("log"))
    assert f"checkpoint: nothing in {tmp_path / 'c'} yet, starting from scratch" in capsys.readouterr().err
    fit(tmp_path / "c", progress=Progress("log"))
    assert "resumed from pass 1 round 6/20" in capsys.readouterr().err
    fit(tmp_path / "c", progress=Progress("log"))
    assert "the checkpoint holds the result" in capsys.readouterr().err


def test_a_fit_that_continues_on_another_kind_of_processor_says_so(monkeypatch, tmp_path, fit_until, capsys):
    monkeypatch.setattr(processor, "kind", lambda: "AVX2")
    fit_until(6, tmp_path / "c", progress=Progress("log"))
    fit_until(1, tmp_path / "c", progress=Progress("log"))
    assert "begun on processors" not in capsys.readouterr().err
    monkeypatch.setattr(processor, "kind", lambda: "NEON")
    fit(tmp_path / "c", progress=Progress("log"))
    said = capsys.readouterr().err
    assert "checkpoint: begun on processors with AVX2, and this one has NEON" in said
    assert "resumed from" in said


@pytest.mark.parametrize("damage", [None, 0, 1])
def test_a_survey_goes_on_in_its_middle(damage, tmp_path, whole, monkeypatch):
    monkeypatch.setattr(block_reader, "PART_BYTES", 0)
    monkeypatch.setattr(read_groups, "MOST_UNITS", 1)  # small units are read together otherwise
    monkeypatch.setattr(block_reader, "WINDOW_TASKS", 1)
    step, seen = Survey.step, []

    def counted(self, block, piece, broadcast):
        if len(seen) == 4:
            seen.append(None)
            raise Killed
        seen.append(piece.chunk)
        return step(self, block, piece, broadcast)

    monkeypatch.setattr(Survey, "step", counted)
    with pytest.raises(Killed):
        fit(tmp_path / "c")
    assert names(tmp_path / "c") == ["survey-part-0", "survey-part-1"]
    if damage is not None:
        (tmp_path / "c" / f"checkpoint-survey-part-{damage}.safetensors").write_bytes(b"")
        with pytest.warns(DKernelWarning):
            result = fit(tmp_path / "c")
    else:
        result = fit(tmp_path / "c")
    assert digest(result, tmp_path) == whole
    # Units of 2, 1 and 3 chunks; the first chunk of the third was done when the run ended.
    assert seen[:5] == [0, 1, 2, 3, None]
    assert seen[5:] == {None: [3, 4, 5], 0: [0, 1, 2, 3, 4, 5], 1: [2, 3, 4, 5]}[damage]


def test_by_default_a_sixteenth_of_a_pass():
    assert MOST_ROUNDS == EVERY * 16


@pytest.fixture
def begun(tmp_path, fit_until):
    """The folder of a fit that was stopped."""
    fit_until(5, tmp_path / "c")
    return tmp_path / "c"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"recipe": RECIPE.replace(gamma=0.1, kernel="laplacian")}, "gamma was 0.15 and is 0.1; kernel was 'gaussian'"),
        ({"recipe": RECIPE.replace(seed=3)}, "seed was 0 and is 3"),
        ({"source": a_source(seed=1)}, "the data differ"),
        ({"source": replace(a_source(), units=a_source().units[:2])}, "rows was 1400 and is 900"),
        ({"source": replace(a_source(), columns=tuple("abcdef"))}, "the columns differ: without 0"),
    ],
    ids=["kernel", "seed", "data", "rows", "columns"],
)
def test_another_run_is_refused_with_what_changed(changes, said, begun):
    before = {path.name: path.read_bytes() for path in begun.iterdir()}
    with pytest.raises((DataError, RecipeError), match="is of another run: ") as error:
        fit(begun, **changes)
    assert said in str(error.value)
    assert isinstance(error.value, DataError) == ("source" in changes)
    assert {path.name: path.read_bytes() for path in begun.iterdir()} == before


def test_other_versions_are_refused(begun, monkeypatch):
    real = checkpoints.versions()
    monkeypatch.setattr(checkpoints, "versions", lambda: {**real, "numpy": "9.9"})
    with pytest.raises(RecipeError, match=f"numpy was {np.__version__} and is 9.9"):
        fit(begun)


def test_changed_files_are_named(tmp_path, fit_until):
    X, y = np.random.default_rng(0).standard_normal((600, 3)), np.arange(600) % 2
    for i in range(3):
        np.save(tmp_path / f"part-{i}.npy", np.column_stack([X, y])[i * 200 : (i + 1) * 200])
    paths = [str(tmp_path / f"part-{i}.npy") for i in range(3)]
    options = {"recipe": RECIPE.replace(task="classify")}
    fit_until(2, tmp_path / "c", source=open_source(paths, label="-1"), **options)
    os.utime(paths[1], (1, 1))
    with pytest.raises(DataError, match=r"changed: .*part-1\.npy\.") as error:
        fit(tmp_path / "c", source=open_source(paths, label="-1"), **options)
    assert "part-0" not in str(error.value)
    os.rename(paths[2], tmp_path / "part-9.npy")
    with pytest.raises(DataError, match=r"not given now: .*part-2\.npy; new: .*part-9\.npy"):
        fit(tmp_path / "c", source=open_source(str(tmp_path / "part-*.npy"), label="-1"), **options)


def test_nothing_is_overwritten_without_resume(begun, tmp_path):
    with pytest.raises(RecipeError, match="Add --resume"):
        fit(begun, resume=False)
    fit(tmp_path / "new", resume=False)
    with pytest.raises(RecipeError, match="Add --resume"):
        fit(tmp_path / "new", resume=False)


def test_a_model_is_no_checkpoint(tmp_path):
    digest(fit(None), tmp_path)
    with pytest.raises(DataError, match="A model file holds no state of a solver"):
        fit(tmp_path / "model.safetensors")
    (tmp_path / "c").mkdir()
    os.rename(tmp_path / "model.safetensors", tmp_path / "c" / "checkpoint-survey.safetensors")
    with pytest.raises(DataError, match="this is a model, not a checkpoint"):
        fit(tmp_path / "c")


def test_one_run_at_a_time(begun):
    with (
        Checkpoint(begun).open(checkpoints.describe_run(a_source(), RECIPE), 0, Progress("none")),
        pytest.raises(ClusterError, match="another run uses this checkpoint"),
    ):
        fit(begun)


def test_refused_early_without_room_or_right(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints.shutil, "disk_usage", lambda _: SimpleNamespace(free=100))
    with pytest.raises(ClusterError, match=r"needs about \d{3} KiB and there is room for [\d,]+ [KM]iB"):
        fit(tmp_path / "c")
    monkeypatch.setattr(checkpoints.os, "access", lambda *_: False)
    for flag, why in ((0, "Permission denied"), (os.ST_RDONLY, "Read-only file system")):
        monkeypatch.setattr(checkpoints.os, "statvfs", lambda _, flag=flag: SimpleNamespace(f_flag=flag))
        with pytest.raises(DataError, match=rf"not writable \({why}\)"):
            fit(tmp_path / "d")
    assert not (tmp_path / "d").exists()


def test_a_damaged_checkpoint_falls_back_to_the_one_before(begun, tmp_path, whole):
    newest = sorted(begun.glob("checkpoint-rounds-*"))[-1]
    newest.write_bytes(newest.read_bytes()[:-1])
    with pytest.warns(DKernelWarning, match="is damaged or truncated"):
        result = fit(begun)
    assert result.resumed == "pass 1 round 4/20"
    assert digest(result, tmp_path) == whole


def test_with_every_file_damaged_all_is_computed_again(begun, tmp_path, whole):
    for path in begun.glob("*.safetensors"):
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        result = fit(begun)
    assert len(said) == 5
    assert result.resumed is None
    assert digest(result, tmp_path) == whole
