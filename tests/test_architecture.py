"""The shape of the house (floors, rooms, sizes), read from the imports: no module is run for it."""

import ast
import importlib.util
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import dkernel
from dkernel.leaf_table import LEAF_OF_COMMAND, LEAF_OF_FORMAT, LEAF_OF_KERNEL, LEAF_OF_MAP, LEAF_OF_STAGE
from tests.pages import text_of
from tests.processes import environment
from tests.rooms import (
    FILES,
    MODULES,
    PACKAGE,
    ROOMS,
    TRAINING,
    TREES,
    everywhere,
    floor_of,
    part_of_training,
    room_of,
    table_of_rooms,
)

# Third party -> the rooms, folders or files that may import it.
OWNERS = {
    "dask": {"data", "streaming", "inference", "estimators", "leaves"},
    "distributed": {"streaming.execution", "data.compute"},
    "sklearn": {"estimators", "leaves"},
    "numba": {"numerics.loops", "numerics.fused.instructions"},
    "llvmlite": {"numerics.machine_code", "numerics.fused.processor", "numerics.fused.instructions"},
    "click": {"cli", *(f"leaves.{leaf}" for leaf in LEAF_OF_COMMAND.values())},
    "matplotlib": {"leaves.report"},
    "onnx": {"leaves.export"},
}
RUNS_CODE = {"pickle", "_pickle", "joblib", "cloudpickle", "dill", "marshal", "shelve", "runpy", "code", "codeop"}
CALLS = {"eval", "exec", "compile", "__import__", "np.load", "np.fromfile"}
IMPORTS = {"import_module", "importlib.import_module"}  # which other files do of names that no model file holds
LOAD_PATH = {"model.model_file", "model.tensor_file", "model.recipe", "features.nystrom", "kernels.parse"}


def test_every_file_is_in_a_room():
    rooms = {name for names in ROOMS for name in names}
    assert [module for module in MODULES if room_of(module) not in rooms] == []


def test_the_page_has_the_map_of_the_rooms():
    assert table_of_rooms() in text_of("tests/README.md"), "python -m tests.rooms prints it"


def test_every_room_has_a_folder_of_tests():
    rooms = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").is_file()}
    assert [room for room in sorted(rooms) if not list((PACKAGE.parent / "tests" / room).glob("test_*.py"))] == []


def test_every_folder_is_a_package():
    folders = {path.parent for path in FILES}
    assert [str(folder) for folder in folders if not (folder / "__init__.py").is_file()] == []


def test_no_file_imports_from_a_floor_above_or_from_a_neighbour():
    wrong = []
    for module in MODULES:
        for name, line in everywhere(module):
            if name.split(".")[0] != "dkernel":
                continue
            here, there, floors = room_of(module), room_of(name), ROOMS
            if here == there == "training":
                here, there, floors = part_of_training(module), part_of_training(name), TRAINING
            if there != here and floor_of(there, floors) >= floor_of(here, floors):
                wrong.append(f"{MODULES[module]}:{line}: {here} imports {name} of {there}")
    assert wrong == []


def test_there_is_no_cycle_of_imports():
    """Nor of imports in functions, by name or for type checking; the lazy names of faces are not counted."""
    edges = {
        module: {name for name, _ in everywhere(module) if name in MODULES and name != module}
        for module in TREES
        if module != "dkernel"
    } | {"dkernel": set()}
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, f"a cycle: {' -> '.join([*path[path.index(module) :], module])}"
        if module not in done:
            for name in sorted(edges[module]):
                visit(name, (*path, module))
            done.add(module)

    for module in sorted(MODULES):
        visit(module, ())


@pytest.mark.parametrize("library", OWNERS)
def test_third_parties_stay_in_their_rooms(library):
    wrong = [
        f"{MODULES[module]}:{line}: imports {name}"
        for module in MODULES
        for name, line in everywhere(module)
        if name.split(".")[0] == library
        and not any(f"{module}.".startswith(f"dkernel.{owner}.") for owner in OWNERS[library])
    ]
    assert wrong == []


def test_no_file_of_the_load_path_can_unpickle_or_run_text():
    """What a model file is read by, in leaves too, and what that reaches of our files, at import or in a function."""
    named = [*LEAF_OF_MAP.items(), *(("cell_machine", leaf) for leaf in LEAF_OF_STAGE.values())]
    named += [(module, leaf) for _, leaf, module in LEAF_OF_KERNEL.values()]
    queue = ["dkernel.model.model_file", *(f"dkernel.leaves.{leaf}.{module}" for module, leaf in named)]
    reached, wrong = set(queue), []
    while queue:
        module = queue.pop()
        calls = [(ast.unparse(n.func), n.lineno) for n in ast.walk(TREES[module]) if isinstance(n, ast.Call)]
        imports = [(name, line) for name, line in everywhere(module) if name.split(".")[0] in RUNS_CODE]
        forbidden = CALLS | (IMPORTS if module.removeprefix("dkernel.") in LOAD_PATH else set())
        found = imports + [(name, line) for name, line in calls if name in forbidden]
        wrong += [f"{MODULES[module]}:{line}: {name}" for name, line in found]
        below = {name for name, _ in everywhere(module) if name in MODULES} - reached
        reached |= below
        queue += below
    assert wrong == []
    assert {f"dkernel.{name}" for name in LOAD_PATH} <= reached


# They only fall: what a change adds, it takes away elsewhere. scripts/house.py prints them.
CEILINGS = {
    "lines": 63_970,
    "lines of the core": 52_785,
    "constants": 555,
    "words of pages": 35_500,
    "training.fit": 211,
    "inference.score": 145,
    "cli.train": 257,
    "cli.score": 183,
    "training.planning.memory_plan": 191,
}
"""Lines, number constants, words of pages, and modules that a module reaches."""


def test_there_is_no_more_to_know_than_before():
    tree = house().Tree(PACKAGE.parent)
    counts = {"lines": tree.lines(), "lines of the core": tree.lines(tree.core()), "constants": len(tree.constants())}
    counts["words of pages"] = tree.words()
    counts |= {name: len(tree.reach(f"dkernel.{name}")) for name in CEILINGS if name not in counts}
    assert {name: count for name, count in counts.items() if count > CEILINGS[name]} == {}


def house():
    spec = importlib.util.spec_from_file_location("house", PACKAGE.parent / "scripts" / "house.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_functions_are_short():
    long = {}
    for module, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                # A door may say at length what it takes, in its signature and its docstring.
                body = node.body[bool(ast.get_docstring(node)) :]
                lines = (node.end_lineno or node.lineno) - body[0].lineno + 1 if body else 0
                if lines > 60:
                    long[f"{module}.{node.name}"] = lines
    assert long == {}


def test_functions_take_ten_parameters_at_most_but_for_the_faces():
    """But for the faces, estimators and the `__all__` of packages, and for compiled loops, which take arrays alone."""
    faces = {
        name.value
        for path in FILES
        if path.name == "__init__.py"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
        for name in ast.walk(node.value)
        if isinstance(name, ast.Constant)
    } | {*dkernel.__all__, "from_arrays"}  # takes the parameters of rows of estimators
    many = {}
    for module, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.name not in faces and room_of(module) != "estimators":
                given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                count = sum(argument.arg not in ("self", "cls") for argument in given)
                loop = any(ast.unparse(mark).startswith("compile_") for mark in node.decorator_list)
                if count > 10 and not loop:
                    many[f"{module}.{node.name}"] = count
    assert many == {}


def test_the_formatter_lays_out_the_whole_package():
    assert [str(path) for path in FILES if "# fmt:" in path.read_text(encoding="utf-8")] == []


def test_names_of_tests_are_short():
    long = []
    for path in sorted(Path(__file__).parent.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_") and len(node.name) >= 70:
                long.append(f"{path}:{node.lineno}: {node.name}")
    assert long == []


def module_names(tree: ast.Module) -> Iterator[str]:
    """The classes of a module, its names for types and its constants, but for variables of types."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign) and "TypeVar(" not in ast.unparse(node):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)]
            yield from (name for name in names if name.strip("_")[:1].isupper())


def test_no_class_type_or_constant_has_the_name_of_another():
    homes: dict[str, list[str]] = {}
    for module, tree in TREES.items():
        for name in set(module_names(tree)):
            homes.setdefault(name, []).append(module)
    assert {name: modules for name, modules in homes.items() if len(modules) > 1} == {}


# Functions of each module of a file format, called by its name.
INTERFACE = {"read_schema", "read_part", "find_bad_rows"}


def test_no_public_function_has_the_name_of_another():
    homes: dict[str, list[str]] = {}
    for module, tree in TREES.items():
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(module)
    several = {name: modules for name, modules in homes.items() if len(modules) > 1}
    assert several.keys() <= INTERFACE, {name: several[name] for name in several.keys() - INTERFACE}
    folders = {module.rpartition(".")[0] for modules in several.values() for module in modules}
    assert folders <= {"dkernel.data.readers", *(f"dkernel.leaves.{leaf}" for leaf in LEAF_OF_FORMAT.values())}


def test_every_number_has_a_reason():
    """A module-level number has a comment on its line or above it, or a docstring below."""
    bare = []
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        lines, body = text.splitlines(), ast.parse(text).body
        for node, after in zip(body, [*body[1:], None], strict=True):
            if not isinstance(node, ast.Assign) or any(isinstance(part, ast.Call) for part in ast.walk(node.value)):
                continue
            names = [part.id for target in node.targets for part in ast.walk(target) if isinstance(part, ast.Name)]
            parts = [part.value for part in ast.walk(node.value) if isinstance(part, ast.Constant)]
            numbers = all(isinstance(part, int | float) and not isinstance(part, bool) for part in parts)
            if not (parts and numbers and all(name.strip("_").isupper() for name in names)):
                continue
            explained = "#" in lines[node.end_lineno - 1] or lines[node.lineno - 2].startswith("#")
            documented = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            if not (explained or documented):
                bare.append(f"{path}:{node.lineno}: {lines[node.lineno - 1]}")
    assert bare == []


CATALOGUES = {
    "solver": ("dkernel.model.solver_table", "SOLVERS"),
    "loss": ("dkernel.losses.losses", "LOSSES"),
    "map": ("dkernel.features.choose", "FEATURES"),
}
NEUTRAL = {"auto", "none"}  # words that many parameters know


@pytest.mark.parametrize("what", CATALOGUES)
def test_nobody_asks_for_a_solver_a_loss_or_a_map_by_its_name(what):
    """Who needs to know asks a property of its class or of its line in the catalogue."""
    home, catalogue = CATALOGUES[what]
    homes = {module for module, _ in CATALOGUES.values()}
    names = set(getattr(importlib.import_module(home), catalogue)) - NEUTRAL
    wrong = []
    for module, tree in TREES.items():
        for node in ast.walk(tree):
            if module in homes or not isinstance(node, ast.Compare):
                continue
            compared = [part.value for side in (node.left, *node.comparators) for part in ast.walk(side)
                        if isinstance(part, ast.Constant)]  # fmt: skip
            if names & {value for value in compared if isinstance(value, str)}:
                wrong.append(f"{MODULES[module]}:{node.lineno}: {ast.unparse(node)}")
    assert wrong == []


def test_messages_name_packages_that_exist():
    texts = [re.sub(r'"\s*\n\s*f?"', "", path.read_text(encoding="utf-8")) for path in FILES]
    named = {word for text in texts for word in re.findall(r"pip install ([\w{'-]+)", text)}
    extras = tomllib.loads(text_of("pyproject.toml"))["project"]["optional-dependencies"].values()
    listed = {re.split(r"[^\w-]", line)[0] for lines in extras for line in lines}
    assert named - listed == {"{package", "{error"}


def test_no_drawer_for_what_has_no_home():
    drawers = {"utils", "util", "helpers", "helper", "common", "misc"}
    assert [str(path) for path in FILES if path.stem in drawers or path.parent.name in drawers] == []


def test_every_file_says_what_it_is_for():
    assert [module for module, tree in TREES.items() if not ast.get_docstring(tree)] == []


def fresh(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], env=environment(), check=True, capture_output=True, text=True)
    return done.stdout


@pytest.mark.parametrize(
    ("what", "others"),
    [
        (
            "dkernel.training.fit, dkernel.inference.score",
            "'scipy.stats', 'scipy.optimize', 'scipy.spatial', 'pandas', 'sklearn'",
        ),
        ("dkernel.estimators", "'sklearn.cluster', 'sklearn.linear_model'"),  # what sklearn.base loads is not ours
    ],
)
def test_work_begins_without_what_few_jobs_need(what, others):
    heavy = f"{{'dask.array', 'dask.dataframe', 'distributed', 'scipy.cluster', {others}}}"
    assert fresh(f"import sys, {what}; print({heavy} & set(sys.modules))") == "set()\n"


def test_everything_public_is_there():
    dkernel = importlib.import_module("dkernel")
    assert [name for name in dkernel.__all__ if not hasattr(dkernel, name)] == []
    listed = set(dir(dkernel))
    assert {"KernelClassifier", "load", "__version__", "__file__"} <= listed
    assert not {"Any", "TYPE_CHECKING", "import_module", "SpectrumKernel"} & listed
    assert listed >= set(dkernel.__all__) - dkernel._MORE
    assert set(dkernel.__all__) > dkernel._MORE
