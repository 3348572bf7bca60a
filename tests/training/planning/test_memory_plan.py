"""The plan says what a fit needs, and refuses with both numbers what cannot be."""

import json
import re
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from dkernel.data.collections.arrays import from_arrays
from dkernel.errors import MemoryBudgetError
from dkernel.model.recipe import Recipe
from dkernel.streaming.cost import CLIENT_BASE, THREADS_BASE, WORKER_BASE
from dkernel.streaming.execution.local import SerialExecutor, ThreadsExecutor
from dkernel.training.fit import plan, train
from dkernel.training.local_stages import LOCAL_STAGES
from dkernel.training.planning.memory_plan import FEW_SLOTS, Plan, format_plan
from dkernel.training.planning.stage_costs import GLOBAL_STAGES, count_task_bytes
from tests.streaming.execution.stand_ins import Stated, apart


def limited(limit, workers=1, threads=1):
    """Some workers with a memory limit each, whose results are no copies."""
    return apart(limit, workers, threads, in_process=True)


@pytest.fixture(scope="module")
def source():
    return from_arrays(np.random.default_rng(0).standard_normal((20_000, 10)), np.arange(20_000) % 2)


GIB = 2**30
HERE = ThreadsExecutor(2).describe()


def checked(source, recipe, machine):
    """The plan; refused where it does not fit."""
    found = Plan.of(source, recipe, machine)
    found.check_memory()
    return found


def rows_of(n, p=28):
    """A source of n rows that has none of them: a unit stands in it as often as it has rows."""
    unit = 131_072
    few = from_arrays(np.zeros((unit, p), np.float32), np.arange(unit) % 2)
    return replace(few, units=few.units * (n // unit) + few.units[:1] * bool(n % unit), files=("rows.parquet",))


@pytest.mark.parametrize("n", [10**5, 10**6, 10**7, 10**8, 10**9])
def test_with_nothing_given_a_plan_of_any_rows_is_that_of_the_first_page(n):
    page = " ".join((Path(__file__).parents[3] / "README.md").read_text().split())
    assert "the client and each worker keep within it, for any number of rows of some 30 columns." in page
    source, data, recipe = rows_of(n), 4 * 28 * n, Recipe(solver="psgd")
    away, here = checked(source, recipe, apart(GIB)), Plan.of(source, recipe, replace(HERE, free_bytes=0))
    assert away.peaks.client <= GIB
    assert away.worker_bytes <= GIB
    assert here.peaks.client <= GIB
    assert here.worker_bytes <= GIB
    assert away.model_bytes <= max(64 * 2**20, data // 100)
    if n >= 10**7:
        assert not away.keeps_rows
        assert sum(away.costs[name].readings for name in GLOBAL_STAGES) <= 3


def test_columns_far_above_what_is_stored_are_in_the_plan():
    X, width = sp.random(400, 1000, density=0.02, format="csr", random_state=0), 2**23
    y = np.asarray(X[:, :500].sum(axis=1)).ravel() > np.median(np.asarray(X.sum(axis=1))) / 2
    source = from_arrays(sp.csr_matrix((X.data, X.indices, X.indptr), (400, width)), y)
    recipe = Recipe(kernel="gaussian", n_components=64, local="none")
    planned = Plan.of(source, recipe, SerialExecutor().describe())
    with SerialExecutor() as executor:
        tracemalloc.start()
        train(source, recipe, executor)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert 16 * width < peak <= planned.here_bytes - THREADS_BASE


@pytest.mark.parametrize("n", [10**7, 10**8])
def test_memory_never_changes_what_is_fitted(n):
    """A smaller limit is refused or changes how often the files are read, and no size."""
    plans = [Plan.of(rows_of(n), Recipe(solver="psgd"), apart(limit)) for limit in (GIB // 2, GIB, 2**40)]
    assert len({(each.sizes, *each.local, each.model_bytes) for each in plans}) == 1
    with pytest.raises(MemoryBudgetError, match="Each worker needs about"):
        checked(rows_of(n), Recipe(solver="psgd"), apart(GIB // 2))


def test_a_high_effort_may_take_more_memory():
    assert Plan.of(rows_of(10**8), Recipe(solver="psgd", effort="high"), apart(None)).sizes.components == 16_384


@pytest.mark.parametrize("features", ["auto", "nystrom", "fourier"])
@pytest.mark.parametrize(("columns", "said"), [(2000, False), (16_000, True), (20_000, True), (30_000, False)])
def test_a_plan_of_squares_says_where_more_components_are_cheaper(features, columns, said):
    source, recipe = rows_of(200_000), Recipe(features=features, solver="psgd", n_components=columns)
    found = Plan.of(source, recipe, HERE)
    assert (found.without_squares() is not None) == said
    lines = dict(format_plan(found.as_dict()))
    assert ("cheaper" in lines) == said
    if said:
        other = Plan.of(source, recipe.replace(n_components=20_002), HERE).as_dict()
        figures = f"about {other['core_seconds']:.0f} core seconds, {other['client_bytes'] / 2**20:,.0f} MiB client"
        assert lines["cheaper"].startswith("20,002 components, ")
        assert lines["cheaper"].endswith(figures)
        assert 10 * other["core_seconds"] < found.as_dict()["core_seconds"]


def readings(source, limit=GIB, **given):
    return dict(format_plan(Plan.of(source, Recipe(**given), apart(limit)).as_dict()))["readings"]


@pytest.mark.parametrize(
    ("n", "stated"),
    [
        (10**5, "1: the rows stay in memory"),
        (10**6, "1: the rows stay in memory"),
        (10**7, "2, and 9 of grids"),
        (10**8, "2, and 9 of grids"),
        (10**9, "2"),
    ],
)
def test_the_plan_says_how_many_readings_are_of_a_local_stage(n, stated):
    assert readings(rows_of(n)) == stated
    assert readings(rows_of(n), 2**44) == "1: the rows stay in memory"
    assert "win" not in readings(replace(rows_of(n), files=()))  # arrays in memory


def test_no_gain_is_asked_of_a_local_stage_that_is_named():
    assert readings(rows_of(10**7), local="none") == "2"
    assert readings(rows_of(10**7), local="grids", gamma=0.1) == "2, and 9 of grids"


def test_a_plan_knows_how_many_classes_there_are():
    X, y = np.random.default_rng(0).standard_normal((2000, 4)), np.arange(2000)
    executor = SerialExecutor()
    for labels, more, outputs in [
        (y % 12, {}, 12), (y % 2, {}, 1), (y % 3 * 1.0, {"task": "classify"}, 3), (y % 3 * 1.0, {"loss": "squared"}, 1),
        (y % 3, {"task": "regress"}, 1), (np.array(list("abcd"))[y % 4], {}, 4),
    ]:  # fmt: skip
        assert plan(from_arrays(X, labels), Recipe(**({"solver": "psgd"} | more)), executor)["outputs"] == outputs


def test_enough_memory_passes_and_too_little_is_refused_with_both_numbers(source):
    recipe = Recipe(solver="psgd", n_components=3000)
    checked(source, recipe, limited(8 * GIB))
    tight = Plan.of(source, recipe, limited(3 * GIB // 8))
    with pytest.raises(MemoryBudgetError) as refused:
        checked(source, recipe, limited(3 * GIB // 8))
    needed, limit, raised, columns = re.search(
        r"needs about ([\d,]+) MiB and has a limit of ([\d,]+) MiB.*memory_limit to (\d+)MiB.*n_components=(\d+)",
        str(refused.value),
    ).groups()
    assert needed == f"{tight.worker_bytes / 2**20:,.0f}"
    assert int(raised) * 2**20 >= tight.worker_bytes
    assert limit == "384"
    assert int(columns) < 3000
    assert issubclass(MemoryBudgetError, MemoryError)


def test_what_the_refusal_advises_is_enough(source):
    recipe = Recipe(solver="psgd", n_components=3000)
    machine = limited(int(0.8 * Plan.of(source, recipe, limited(GIB)).worker_bytes))
    with pytest.raises(MemoryBudgetError) as refused:
        checked(source, recipe, machine)
    columns = int(re.search(r"n_components=(\d+)", str(refused.value))[1])
    checked(source, recipe.replace(n_components=columns), machine)
    needed = Plan.of(source, recipe, machine).worker_bytes
    checked(source, recipe, limited(needed + 2**20))


def test_of_what_the_refusal_advises_the_share_is_enough(source):
    recipe, machine = Recipe(solver="psgd", n_components=3000), replace(limited(3 * GIB // 8), used_share=0.8)
    with pytest.raises(MemoryBudgetError, match=r"a limit of 384 MiB \(Dask pauses it at 80%") as refused:
        checked(source, recipe, machine)
    raised = int(re.search(r"memory_limit to (\d+)MiB", str(refused.value))[1]) * 2**20
    checked(source, recipe, limited(int(0.8 * raised)))


def test_one_process_frees_the_tasks_squares_before_its_own(source):
    recipe = Recipe(solver="psgd", n_components=3000)
    here, apart = Plan.of(source, recipe, HERE), Plan.of(source, recipe, limited(GIB))
    assert here.peaks.client == apart.peaks.client
    assert here.peaks.client > 6 * 8 * 3000**2
    assert here.worker_bytes < apart.worker_bytes - 3 * 8 * 3000**2


def test_no_more_than_the_whole_source_is_in_flight():
    X = np.zeros((1_000_000, 28), np.float32)
    million = from_arrays(X, np.arange(len(X)) % 2)
    found = checked(million, Recipe(solver="psgd", n_components=1024), limited(GIB // 2, workers=2))
    assert found.worker_bytes < GIB // 2


def test_where_no_number_of_columns_would_fit_none_is_advised(source):
    with pytest.raises(MemoryBudgetError) as refused:
        checked(source, Recipe(solver="psgd", n_components=3000), limited(GIB // 8))
    assert "n_components" not in str(refused.value)


def test_a_client_that_is_too_small_is_refused(source):
    with pytest.raises(MemoryBudgetError, match=r"needs about [\d,]+ MiB.*n_components=3000.*has 512 MiB"):
        checked(source, Recipe(solver="psgd", n_components=3000), replace(HERE, most_bytes=GIB // 2))


def test_train_refuses_before_anything_is_read(source, monkeypatch):
    executor = Stated(limited(2**20))
    monkeypatch.setattr(executor, "compute", lambda *_: pytest.fail("the data were read"))
    with pytest.raises(MemoryBudgetError):
        train(source, Recipe(solver="psgd", n_components=100), executor)


def test_without_a_limit_nothing_is_refused(source):
    found = checked(source, Recipe(solver="psgd", n_components=10_000), HERE)
    assert found.as_dict()["memory_limit"] is None


def test_needs_grow_with_columns_threads_and_outputs(source):
    def needs(columns=1000, threads=1, outputs=1):
        return Plan.of(source, Recipe(solver="psgd", n_components=columns), limited(GIB, 1, threads), outputs)

    assert needs(2000).worker_bytes > needs().worker_bytes
    assert needs(2000).peaks.client > needs().peaks.client
    assert needs(threads=4).worker_bytes > needs().worker_bytes
    assert needs(outputs=10).costs["solve"].flops > needs().costs["solve"].flops
    assert needs(2000).costs["setup"].flops > 3 * needs().costs["setup"].flops


@pytest.mark.parametrize("n", [10**5, 10**8])
def test_a_plan_is_the_sum_of_what_the_stages_state(n):
    """The stages know sizes alone; what of their bytes is in which process is the machine's."""
    source, recipe, machine = rows_of(n), Recipe(solver="psgd", n_components=2000), apart(GIB)
    found = Plan.of(source, recipe, machine)
    costs, stages = list(found.costs.values()), found.costs
    assert found.readings == sum(cost.readings for cost in costs)
    assert found.model_bytes == stages["solve"].model_bytes + max(
        (stages[name].model_bytes for name in found.local), default=0
    )
    throughout = sum(cost.throughout_bytes for cost in costs)
    assert found.worker_bytes >= WORKER_BASE + throughout + max(count_task_bytes(cost, machine)[0] for cost in costs)
    assert found.peaks.client >= CLIENT_BASE + 3 * stages["survey"].throughout_bytes + stages["setup"].client_bytes


def test_squares_are_made_where_the_client_has_the_cores():
    setup = Plan.of(rows_of(10**5), Recipe(solver="psgd", n_components=2000), HERE).costs["setup"]
    places = {cores: count_task_bytes(setup, apart(GIB, cores=cores)) for cores in (1, 2)}
    assert places == {1: (setup.task_bytes, 0), 2: (0, setup.shared_bytes(2))}
    assert count_task_bytes(setup, HERE) == (setup.shared_bytes(2), 0)
    assert count_task_bytes(setup, limited(GIB, threads=2)) == (2 * setup.task_bytes, 0)  # a limit counts all of them


def test_a_source_is_kept_where_the_workers_together_have_room(source):
    recipe = Recipe(solver="psgd", n_components=100)
    big = from_arrays(np.zeros((4_000_000, 10), np.float32), np.zeros(4_000_000, int))
    assert Plan.of(source, recipe, limited(GIB)).keeps_rows
    assert not Plan.of(big, recipe, limited(GIB // 3)).keeps_rows
    assert Plan.of(big, recipe, limited(GIB, workers=8)).keeps_rows


def test_the_plan_is_json(source):
    found = plan(source, Recipe(solver="psgd"), ThreadsExecutor(2))
    assert json.loads(json.dumps(found)) == found
    assert found["n"] == 20_000


def test_a_worker_holds_the_matrices_of_a_sums_levels():
    """Of 65,536 rows in one chunk, 32 pieces, the tree of a normal equation's sum has six levels at a time."""
    rows = from_arrays(np.zeros((65_536, 3)), np.arange(65_536.0))
    recipe = Recipe(
        solver="psgd", n_components=1024, loss="squared", features="nystrom", gamma=0.1, scale="none", metric="identity"
    )
    psgd, normal = (
        plan(rows, recipe.replace(solver=solver), Stated(limited(8 * GIB))) for solver in ("psgd", "normal")
    )
    matrices = (normal["worker_bytes"] - psgd["worker_bytes"]) / (8 * 1024**2)
    assert matrices > 5 * 6


@pytest.mark.parametrize(
    ("rows", "targets", "tried"),
    [(12_000, 1, [*LOCAL_STAGES]), (12_000, 8, [*LOCAL_STAGES]), (40_000, 8, ["grids"])],
)
def test_tried_local_stages_do_not_change_the_stated_model_size(rows, targets, tried):
    """Of one target they fit into 2 MB; a stage of several is left out where those of all do not."""
    Y = np.zeros((rows, targets), np.float32)
    source = from_arrays(np.zeros((rows, 2), np.float32), Y if targets > 1 else Y[:, 0])
    recipe = Recipe(solver="psgd", task="regress", loss="squared", max_model_size=2_000_000)
    found = plan(source, recipe, ThreadsExecutor(2))
    assert found["local"] == tried
    assert found["model_bytes"] <= 2_000_000


def test_the_eigenvectors_of_all_folds_count_for_the_normal_equations(source):
    given = Recipe(loss="squared", gamma=0.1, scale="standard", solver="normal", n_components=2000)
    one = Plan.of(source, given.replace(n_components=2049), HERE)  # too many for the matrices of folds
    folded = Plan.of(source, given, HERE)
    assert folded.costs["solve"].flops > one.costs["solve"].flops + 4 * 10 * 2000**3
    assert folded.costs["setup"].flops == 0


def test_phases_that_do_not_live_together_are_not_added(source):
    """Cells are fitted when the factors of the setup are gone, and the tree of a sum before its eigenvectors are."""
    matrix = 8 * 3000**2
    alone, cells = (
        Plan.of(source, Recipe(solver="psgd", n_components=3000, gamma=0.1, local=local), HERE)
        for local in ("none", "cells")
    )
    assert cells.here_bytes < alone.here_bytes + matrix
    given = Recipe(loss="squared", gamma=0.1, scale="standard", metric="identity", solver="normal", n_components=2000)
    normal = Plan.of(source, given, HERE)
    each = 5 * (3 + 2)  # folds, and levels of half of 20,000 rows
    assert 2 * each < normal.here_bytes / (8 * 2000**2) < 2 * each + 10


def test_a_plan_uses_as_many_workers_as_the_work_is_worth():
    small = Recipe(solver="psgd", n_components=512, local="none", kernel="gaussian", gamma=0.1)
    few, many = (Plan.of(rows_of(640_000), small, apart(GIB, workers)) for workers in (2, 64))
    assert (few.used.slots, many.used.slots) == (2, FEW_SLOTS)
    assert (few.flops, few.local, few.sizes) == (many.flops, many.local, many.sizes)
    # of work of s seconds and w waits sqrt(s / w) are enough: four times the rows are worth twice the workers
    once, four = (Plan.of(rows_of(n), small, apart(64 * GIB, 2000)).enough_slots for n in (2 * 10**8, 8 * 10**8))
    assert 1.8 < four / once < 2.2
    # rows that fit in the memory of more workers stay in memory
    tight = Plan.of(rows_of(32 * 10**6), small, apart(GIB, 64))
    assert tight.keeps_rows
    assert FEW_SLOTS < tight.used.slots <= 64
    assert not Plan.of(rows_of(32 * 10**6), small, apart(GIB, FEW_SLOTS)).keeps_rows


def test_the_memory_of_the_client_refuses_and_advises_what_fits(source):
    asked = Recipe(solver="psgd")
    free = Plan.of(source, asked, apart(GIB))
    small = apart(GIB, most_bytes=int(0.8 * free.peaks.client))
    with pytest.raises(MemoryBudgetError, match="Use a larger one, or use n_components=") as refused:
        checked(source, asked, small)
    columns = int(re.findall(r"n_components=(\d+)", str(refused.value))[1])
    assert columns < free.sizes.components
    checked(source, asked.replace(n_components=columns), small)
    with pytest.raises(MemoryBudgetError, match=r"Use a larger one\.$"):
        checked(source, asked, apart(GIB, most_bytes=GIB // 8))
    checked(source, asked, apart(GIB, most_bytes=free.peaks.client))


def test_nothing_is_read_for_a_plan_that_does_not_fit(source, monkeypatch):
    rows, recipe, executor = rows_of(10**6), Recipe(solver="psgd"), Stated(apart(GIB // 8))
    monkeypatch.setattr(executor, "compute", lambda *_: pytest.fail("a unit is read"))
    with pytest.raises(MemoryBudgetError) as refused:
        checked(rows, recipe, executor.describe())
    found = plan(rows, recipe, executor)
    assert found["does_not_fit"] == str(refused.value)
    assert format_plan(found)[0] == ("does not fit", str(refused.value))
    assert plan(source, recipe, ThreadsExecutor(2))["does_not_fit"] is None


def test_a_plan_leaves_out_the_workers_that_are_too_small_and_says_why():
    small = apart(GIB, 4)
    small = replace(small, limits=small.limits | {"worker 1": GIB // 4, "worker 3": GIB // 8})
    executor, recipe = Stated(small), Recipe(solver="psgd", n_components=512, local="none")
    assert plan(rows_of(10**6), recipe, executor)["does_not_fit"] is None
    why = executor.left_out
    assert re.match(
        r"The worker worker 1 has a limit of 256 MiB, and the fit needs [\d,]+ MiB of it\.$", why["worker 1"]
    )
    assert why.keys() == {"worker 1", "worker 3"}
    found = Plan.of(rows_of(10**6), recipe, small)
    assert (list(found.used.workers), found.used.memory_limit) == (["worker 0", "worker 2"], GIB)


def test_workers_that_join_before_a_plan_is_refused_are_counted():
    few, more, recipe = apart(GIB // 4, 1), apart(GIB // 4, 1), Recipe(solver="psgd", n_components=512, local="none")
    more = replace(more, workers=more.workers | {"late": 1}, limits=more.limits | {"late": GIB})
    assert plan(rows_of(10**6), recipe, Stated(few))["does_not_fit"] is not None
    executor = Stated(few, more)
    assert plan(rows_of(10**6), recipe, executor)["does_not_fit"] is None
    assert list(executor.left_out) == ["worker 0"]
