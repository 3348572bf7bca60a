"""What dkernel uses of Dask: documented names alone, so that an upgrade breaks nothing in silence.

Each name has its page: dask.org/api, distributed.dask.org/api, docs.dask.org/custom-graphs.
"""

import ast

import pytest

from tests.test_architecture import MODULES, TREES

# Module of Dask -> names that are imported from it.
IMPORTED = {
    "dask": {"config"},
    "dask.array": None,  # whole namespaces that are documented
    "dask.dataframe": None,
    "dask.base": {"annotate", "compute", "get_annotations", "is_dask_collection", "optimize", "tokenize"},
    "dask.core": {"get_dependencies"},
    "dask.delayed": {"Delayed", "delayed"},
    "dask.local": {"get_sync"},
    "dask.threaded": {"get"},
    "dask.tokenize": {"tokenize"},
    "dask.utils": {"parse_bytes"},
    "distributed": {"Client", "LocalCluster", "Security", "fire_and_forget", "get_worker", "secede"},
}
CLIENT = {
    "asynchronous", "close", "cluster", "compute", "current",
    "dashboard_link", "gather", "get", "map", "nbytes", "nthreads", "persist",
    "retry", "run", "wait_for_workers",
    "run_on_scheduler", "scheduler", "scheduler_info", "status", "submit", "who_has",
}  # fmt: skip
FUTURE = {"add_done_callback", "done", "exception", "key", "release", "result", "status"}
CLUSTER = {"close", "scale", "workers"}
NEVER = {
    "register_plugin", "register_worker_plugin", "register_scheduler_plugin", "upload_file", "handlers", "rpc",
    "scheduler_comm", "asyncio_loop", "executors", "_adaptive", "thread_state", "log_event", "subscribe_topic",
    "scatter",
}  # fmt: skip


def attributes():
    """(module, line, name of the object, attribute) of every attribute that is asked for."""
    for module, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute):
                owner = node.value
                name = owner.id if isinstance(owner, ast.Name) else getattr(owner, "attr", "")
                if isinstance(owner, ast.Call):  # reach().submit, _distributed().Client
                    function = owner.func
                    name = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
                yield module, node.lineno, name, node.attr


def imports():
    for module, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                yield from ((module, node.lineno, alias.name, None) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield from ((module, node.lineno, node.module or "", alias.name) for alias in node.names)
            elif (
                isinstance(node, ast.Call)
                and getattr(node.func, "attr", getattr(node.func, "id", "")) == "import_module"
                and isinstance(node.args[0], ast.Constant)
            ):
                yield module, node.lineno, node.args[0].value, None


def test_only_these_names_are_imported_from_dask():
    wrong = [
        f"{MODULES[module]}:{line}: {package} {name or ''}"
        for module, line, package, name in imports()
        if package.split(".")[0] in ("dask", "distributed")
        and (package not in IMPORTED or (name is not None and IMPORTED[package] and name not in IMPORTED[package]))
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("owners", "allowed"),
    [
        ({"client", "reach"}, CLIENT),
        ({"future"}, FUTURE),
        ({"cluster"}, CLUSTER),
        ({"_distributed"}, IMPORTED["distributed"]),
        ({"worker"}, {"address", "local_directory", "memory_manager", "scheduler", "security", "state"}),
    ],
    ids=["client", "future", "cluster", "distributed", "worker"],
)
def test_only_these_attributes_are_asked_for(owners, allowed):
    found = {(MODULES[m].name, line, name) for m, line, owner, name in attributes() if owner in owners}
    assert {one for one in found if one[2] not in allowed} == set()
    assert found


def test_nothing_goes_round_the_scheduler_or_stays_there():
    asked = [(MODULES[m].name, line, name) for m, line, owner, name in attributes() if owner != "axes"]  # of a picture
    assert [one for one in asked if one[2] in NEVER] == []


def test_no_actor_is_asked_for():
    """What an actor holds is lost with its worker, as what a queue or a variable holds, which are not imported."""
    asked = [w for tree in TREES.values() for n in ast.walk(tree) if isinstance(n, ast.Call) for w in n.keywords]
    assert not {"actor", "actors"} & {word.arg for word in asked}
