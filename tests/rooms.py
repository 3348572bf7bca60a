"""The rooms of the package, from the ground up, and what each file of them imports, read from its text.

`python -m tests.rooms` prints the table of the rooms in tests/README.md, and what each imports from.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "dkernel"
FILES = sorted(path for path in PACKAGE.rglob("*.py"))

# A file imports from its own room and from rooms of the lines above its own.
ROOMS = (
    ("errors", "version"),
    ("leaf_table",),
    ("numerics",),
    ("kernels", "losses"),
    ("features",),
    ("data",),
    ("model",),
    ("streaming",),
    ("solvers",),
    ("training",),
    ("inference",),
    ("estimators", "cli"),
    ("leaves",),
    ("face",),
)
# So do the folders of training, and its files: those that are named here, and all others as "files".
TRAINING = (("problem",), ("selection",), ("grids", "cells"), ("stages",), ("planning",), ("files",))
FILES_OF_TRAINING = {
    "holdout_losses": "problem",
    "residual": "problem",
    "stage_result": "problem",
    "local_stages": "stages",
}


def module_of(path: Path) -> str:
    parts = list(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in FILES}
TREES = {module: ast.parse(path.read_text(encoding="utf-8")) for module, path in MODULES.items()}


def room_of(module: str) -> str:
    parts = module.split(".")
    return "face" if len(parts) == 1 or parts[1] == "__main__" else parts[1]


def part_of_training(module: str) -> str:
    parts = module.split(".")
    folder = len(parts) > 2 and MODULES[".".join(parts[:3])].name == "__init__.py"
    return parts[2] if folder else FILES_OF_TRAINING.get(parts[-1], "files")


def floor_of(name: str, floors: tuple[tuple[str, ...], ...]) -> int:
    return next(floor for floor, names in enumerate(floors) if name in names)


def imported(module: str, nodes: Iterator[ast.AST]) -> Iterator[tuple[str, int]]:
    """(what, line) of every import; `from package import module` is an import of the module."""
    package = module if MODULES[module].name == "__init__.py" else module.rpartition(".")[0]
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "import_module":
            # A package that imports its own files when they are asked for is a face, whose lazy names are not counted.
            own = f"{module}." if package == module else " "
            yield from ((name, node.lineno) for name in named(node.args[0]) if not name.startswith(own))
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, base] if base else above)
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                yield (inner if inner in MODULES else base), node.lineno


def named(text: ast.expr) -> Iterator[str]:
    """The modules that `import_module` is given: by name, or all of a folder."""
    first = text.values[0] if isinstance(text, ast.JoinedStr) else text
    if isinstance(first, ast.Constant):
        yield from [str(first.value)] if first is text else (m for m in MODULES if m.startswith(str(first.value)))


@cache
def everywhere(module: str) -> list[tuple[str, int]]:
    return list(imported(module, ast.walk(TREES[module])))


def room_packages() -> dict[str, str]:
    """Room -> what the first line of its `__init__` says that it holds."""
    packages = {room: f"dkernel.{room}" for names in ROOMS for room in names}
    return {
        room: str(ast.get_docstring(TREES[package])).splitlines()[0].rstrip(".")
        for room, package in packages.items()
        if package in MODULES and MODULES[package].name == "__init__.py"
    }


def table_of_rooms() -> str:
    """The table of tests/README.md."""
    return "\n".join(
        ["| room | what it holds |", "|---|---|", *(f"| `{r}` | {s} |" for r, s in room_packages().items())]
    )


def drawing_of_rooms() -> str:
    """Each room, and the rooms that it imports from."""
    rooms = [room for names in ROOMS for room in names]
    below = {
        here: {room_of(n) for m in MODULES if room_of(m) == here for n, _ in everywhere(m) if n in MODULES}
        for here in room_packages()
    }
    return "\n".join(f"{here:10} <- {' '.join(r for r in rooms if r in below[here] - {here})}" for here in below)


if __name__ == "__main__":
    print(table_of_rooms(), drawing_of_rooms(), sep="\n\n")
