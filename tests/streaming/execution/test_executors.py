"""The executors of this process, and the laws that every executor obeys."""

import os
import subprocess
import sys
import threading
from contextlib import closing

import dask
import numpy as np
import pytest

from dkernel.errors import DataError
from dkernel.streaming.execution import base
from dkernel.streaming.execution.base import Call, Item, LocalHandle
from dkernel.streaming.execution.local import SerialExecutor, ThreadsExecutor
from tests.streaming.execution import jobs

LOCAL = [SerialExecutor(), ThreadsExecutor(1), ThreadsExecutor(3)]


@pytest.fixture(params=LOCAL, ids=lambda executor: f"{executor.name}{executor.slots}")
def local(request):
    return request.param


@pytest.fixture(params=[*range(len(LOCAL)), pytest.param("two_workers", marks=pytest.mark.cluster)])
def executor(request):
    return request.getfixturevalue(request.param) if request.param == "two_workers" else LOCAL[request.param]


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    monkeypatch.setattr(base, "PAUSE", 0.0)


def test_results_come_in_the_order_of_the_calls(executor):
    for _ in range(2):
        calls = [Call(f"square-{i}", pow, (i, 2)) for i in range(20)]
        assert executor.compute([*calls, calls[3]]) == ([*(i * i for i in range(20)), 9], [])
    assert executor.compute([]) == ([], [])


def test_results_are_taken_as_they_come_and_calls_when_there_is_room(local):
    taken = []

    def calls(n):
        for i in range(n):
            taken.append(i)
            yield Call(f"square-{i}", pow, (i, 2))

    found = []
    for value in local.as_they_come(calls(20)):
        found.append(value)
        assert len(taken) - len(found) <= 2 * local.slots
    assert sorted(found) == [i * i for i in range(20)]
    assert list(local.as_they_come(())) == []
    taken.clear()
    with closing(local.as_they_come(calls(20))) as some:
        next(some)
    assert len(taken) <= local.slots + 1


def test_a_slow_call_holds_nothing_up():
    last = threading.Event()
    slow = Call("slow", last.wait, (30,))
    quick = [Call(f"square-{i}", pow, (i, 2)) for i in range(5)]
    found = []
    for value in ThreadsExecutor(2).as_they_come([slow, *quick]):
        found.append(value)
        if len(found) == 5:
            last.set()
    assert found[-1] is True
    assert sorted(found[:5]) == [0, 1, 4, 9, 16]


@pytest.mark.parametrize("read", jobs.READINGS)
def test_an_error_of_the_data_comes_as_itself_and_once(executor, read, tmp_path):
    with pytest.raises(DataError, match="row 17"):
        read(executor, [Call("refuse", jobs.refuse, (str(tmp_path),))])
    assert len(jobs.ran(tmp_path, "refuse")) == 1
    flaky = [Call("pow", pow, (2, 3)), Call("fail", jobs.fail_twice, (str(tmp_path), OSError))]
    assert read(executor, flaky) == [8, 42]


def test_kept_values_blocks_and_plain_arguments_reach_the_function(executor, tmp_path):
    _, handles = executor.compute([], [jobs.unit(tmp_path, 1), jobs.unit(tmp_path, 2)])
    blocks = [Item(handle, (i,)) for handle in handles for i in range(2)]
    weights = executor.keep({"w": [1.0, 2.0, 3.0, 4.0]}, "weights")
    (result,), _ = executor.compute([Call("total", jobs.total, (blocks, weights))])
    expected = jobs.total([*jobs.read(tmp_path, 1), *jobs.read(tmp_path, 2)], {"w": [1.0, 2.0, 3.0, 4.0]})
    assert result == expected
    executor.release([*handles, *blocks, weights])


def test_the_next_units_are_read_with_the_calls(executor, tmp_path):
    results, (handle,) = executor.compute([Call("pow", pow, (2, 3))], [jobs.unit(tmp_path, 7)])
    assert results == [8]
    (block,), _ = executor.compute([Call("dot", jobs.dot, (Item(handle, (1,)), np.ones(3, "float32")))])
    assert len(jobs.ran(tmp_path, "read7")) == 1
    np.testing.assert_array_equal(block, jobs.read(tmp_path, 7)[1] @ np.ones(3, "float32"))


def test_arguments_are_not_looked_into(executor):
    # To older Dasks a tuple that begins with a function is a task.
    inside = {"call": (sum, [1, 2]), "key": "copy"}
    assert executor.compute([Call("copy", dict.copy, (inside,))])[0] == [inside]


def test_arguments_are_not_copied(local):
    array = np.arange(4)
    assert local.compute([Call("same", list, ([array],))])[0][0][0] is array


def test_trouble_with_a_disk_is_tried_again_also_in_a_unit(executor, tmp_path):
    folders = [tmp_path / "call", tmp_path / "unit"]
    for folder in folders:
        folder.mkdir()
    name = f"fail-{tmp_path.name}"
    unit = dask.delayed(jobs.fail_twice, pure=True)(str(folders[1]), OSError, dask_key_name=name)
    _, (handle,) = executor.compute([], [unit])
    calls = [Call("fail", jobs.fail_twice, (str(folders[0]), OSError)), Call("square", pow, (handle, 2))]
    assert executor.compute(calls)[0] == [42, 42**2]
    assert [len(jobs.ran(folder, "fail")) for folder in folders] == [3, 3]


def check_retries(executor, folder, make):
    folders = [folder / name for name in ("call", "other", "unit")]
    for folder in folders:
        folder.mkdir()
    calls = [Call(f"fail-{folder.name}", jobs.fail_twice, (str(folder), OSError)) for folder in folders[:2]]
    results, (handle,) = executor.compute(calls, [make(folders[2])])
    assert results == [42, 42]
    assert executor.compute([Call("tuple", tuple, (handle,))])[0] == [(42,)]


def test_a_call_and_a_unit_read_meanwhile_have_retries_of_their_own(executor, tmp_path):
    check_retries(executor, tmp_path, jobs.failing_unit)


def test_a_chunk_of_several_tasks_read_meanwhile_has_them_too(executor, tmp_path):
    check_retries(executor, tmp_path, jobs.failing_chunk)


@pytest.mark.parametrize("error", [FileNotFoundError, ValueError])
def test_what_will_not_pass_is_not_tried_again(executor, tmp_path, error):
    with pytest.raises(error):
        executor.compute([Call("fail", jobs.fail_twice, (str(tmp_path), error))])
    assert len(jobs.ran(tmp_path, "fail")) == 1


def test_a_handle_of_another_executor_is_refused(executor):
    class Foreign(base.Handle):
        pass

    with pytest.raises(TypeError, match="Foreign belongs to another executor"):
        executor.compute([Call("pow", pow, (Foreign(), 2))])


def test_release_forgets_nothing_that_is_still_held(local):
    handle = local.keep([1, 2], "list")
    local.release([handle])
    assert isinstance(handle, LocalHandle)
    assert handle.value == [1, 2]


def test_threads_are_the_cores_that_this_process_may_use():
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert ThreadsExecutor().slots == count


def test_a_run_on_threads_imports_no_distributed():
    code = (
        "import sys\n"
        "from dkernel.streaming.execution.connect import connect, default_executor\n"
        "from dkernel.streaming.execution.base import Call\n"
        "with connect() as executor:\n"
        "    assert executor.compute([Call('pow', pow, (2, 3))]) == ([8], [])\n"
        "assert default_executor().name == 'threads'\n"
        "print(sorted({'distributed', 'pandas', 'sklearn', 'numba'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")
