"""Where a module is tested: in the folder of its room, or where the table here says."""

import ast
from pathlib import Path

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "dkernel"
MODULES = {
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts): ast.parse(path.read_text(encoding="utf-8"))
    for path in sorted(PACKAGE.rglob("*.py"))
    if path.name != "__init__.py"
}

# Module -> file of tests in another room, or one that runs commands and names no module.
ELSEWHERE = {
    "__main__": "cli/test_exit_codes.py",
    "cli.cancel": "cli/test_detach.py",
    "cli.jobs": "cli/test_detach.py",
    "cli.update": "training/test_update.py",
    "data.writers.collisions": "cli/test_outputs.py",
    "estimators.scoring": "inference/test_score_nightly.py",
    "inference.feature_moments": "estimators/test_decomposition.py",
    "inference.score_files": "cli/test_score.py",
    "inference.shapley": "estimators/test_explanation.py",
    "losses.predictive_variance": "training/test_variance.py",
    "model.journal": "training/test_checkpoint.py",
    "numerics.shapley": "estimators/test_explanation.py",
    "solvers.catalogue": "solvers/test_driver.py",
    "solvers.full_batch": "solvers/test_solvers.py",
    "solvers.one_class": "estimators/test_one_class.py",
    "solvers.setup_cost": "training/planning/test_memory_plan.py",
    "solvers.sgd": "training/test_fit.py",
    "training.grids.inputs": "training/grids/test_grid_faces.py",
    "streaming.division": "training/test_divide_rows.py",
    "streaming.kept_block": "solvers/test_objective.py",
    "streaming.repeated_reading": "training/test_local_stage.py",
    "version": "cli/test_doctor.py",
}


def room(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 2 else ""


def imported(tree: ast.AST) -> set[tuple[str, str]]:
    """Module and name of every import from the package."""
    return {
        (node.module, alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("dkernel")
        for alias in node.names
    }


def defined(tree: ast.Module) -> set[str]:
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}


def with_tests_in_their_rooms() -> set[str]:
    """Modules with a test file of their name, with an import from a test of their room, or used by such a module."""
    names = {module: defined(tree) for module, tree in MODULES.items()}
    imports = {module: imported(tree) for module, tree in MODULES.items()}
    found = set()
    for path in TESTS.rglob("*.py"):
        folder = path.relative_to(TESTS).parts[0] if path.parent != TESTS else ""
        asked = imported(ast.parse(path.read_text(encoding="utf-8")))
        for module in MODULES:
            own = path.name == f"test_{module.split('.')[-1]}.py"
            if room(module) == folder and (own or any(f"{m}.{n}" == module or n in names[module] for m, n in asked)):
                found.add(module)
    waiting = list(found)
    while waiting:
        module = waiting.pop()
        for source, name in imports[module]:
            for other in {source, f"{source}.{name}"} & MODULES.keys() - found:
                if room(other) == room(module):
                    found.add(other)
                    waiting.append(other)
    return found


def test_every_room_has_a_folder_of_tests():
    rooms = {room(module) for module in MODULES} - {""}
    assert [name for name in sorted(rooms) if not list((TESTS / name).glob("test_*.py"))] == []


def test_every_module_is_tested_in_its_room_or_says_where():
    left = {module.removeprefix("dkernel.") for module in MODULES.keys() - with_tests_in_their_rooms()}
    assert left - ELSEWHERE.keys() == set(), "name the files that test these modules in ELSEWHERE"
    assert [file for file in ELSEWHERE.values() if not (TESTS / file).is_file()] == []
