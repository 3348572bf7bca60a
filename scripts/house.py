#!/usr/bin/env python3
"""How much there is to know of the code: what one tree has, or several beside each other, read from their files.

    python scripts/house.py                  this tree
    python scripts/house.py OLD_TREE .       two trees, as columns of one table

The core is the package without `dkernel/leaves`. A module reaches what it imports, at its top, in functions or for
types, and what these import. `tests/test_architecture.py` holds some of these figures to ceilings.
"""

import argparse
import ast
import statistics
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOTS = ("training.fit", "inference.score", "cli.train", "cli.score", "training.planning.memory_plan")
LONG_FILE, LONG_BODIES, MANY_PARAMETERS = 400, (40, 60), (6, 10)

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Tree:
    """The Python files of the package of a tree."""

    def __init__(self, root: Path) -> None:
        self.root, self.package = root, root / "dkernel"
        self.texts = {self._name(path): path.read_text("utf-8") for path in sorted(self.package.rglob("*.py"))}
        self.parsed = {name: ast.parse(text) for name, text in self.texts.items()}

    def _name(self, path: Path) -> str:
        parts = path.relative_to(self.root).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def lines(self, modules: object = None) -> int:
        """Lines of these modules, of all by default."""
        names = self.texts if modules is None else modules
        return sum(len(self.texts[name].splitlines()) for name in names)  # type: ignore[attr-defined]

    def words(self) -> int:
        """Words of all pages."""
        pages = (path for path in self.root.rglob("*.md") if "/." not in f"/{path.relative_to(self.root)}")
        return sum(len(path.read_text("utf-8").split()) for path in pages)

    def core(self) -> list[str]:
        """The modules that are in no leaf."""
        return [name for name in self.texts if not name.startswith("dkernel.leaves.")]

    def nodes(self) -> Iterator[ast.AST]:
        for tree in self.parsed.values():
            yield from ast.walk(tree)

    def functions(self) -> list[Function]:
        return [node for node in self.nodes() if isinstance(node, Function)]

    def imports(self, module: str) -> set[str]:
        """The modules of the package that a module imports, anywhere in it."""
        found = set()
        for node in ast.walk(self.parsed[module]):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                inner = {f"{node.module}.{alias.name}" for alias in node.names}
                found |= {name if name in self.texts else node.module for name in inner}
        return {name for name in found if name in self.texts and name != "dkernel"}

    def reach(self, module: str) -> set[str]:
        """The modules that a module leads to, with itself."""
        seen, queue = {module}, [module]
        while queue:
            more = self.imports(queue.pop()) - seen
            seen |= more
            queue += more
        return seen

    def constants(self) -> list[str]:
        """Names in capitals, of modules, whose values are numbers or tuples of numbers."""
        found = []
        for tree in self.parsed.values():
            for node in tree.body:
                if not isinstance(node, ast.Assign) or any(isinstance(part, ast.Call) for part in ast.walk(node.value)):
                    continue
                names = [part.id for target in node.targets for part in ast.walk(target) if isinstance(part, ast.Name)]
                values = [part.value for part in ast.walk(node.value) if isinstance(part, ast.Constant)]
                numbers = values and all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
                found += [name for name in names if numbers and name.strip("_").isupper()]
        return found


def body_lines(function: Function) -> int:
    """Lines of a function without its signature and its docstring."""
    body = function.body[bool(ast.get_docstring(function)) :]
    return (function.end_lineno or 0) - body[0].lineno + 1 if body else 0


def parameters(function: Function) -> int:
    """Parameters of a function but for self and cls."""
    given = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    return sum(argument.arg not in ("self", "cls") for argument in given)


def count_docs(tree: Tree) -> int:
    """Lines of docstrings."""
    owners = (ast.Module, ast.ClassDef, *Function.__args__)
    texts = [node.body[0] for node in tree.nodes() if isinstance(node, owners) and ast.get_docstring(node)]
    return sum((text.end_lineno or 0) - text.lineno + 1 for text in texts)


def calls(tree: Tree) -> Counter[str]:
    """How often each name is used."""
    names = (node.id if isinstance(node, ast.Name) else node.attr for node in tree.nodes()
             if isinstance(node, ast.Name | ast.Attribute))  # fmt: skip
    return Counter(names)


def measure(root: Path) -> dict[str, str]:
    """The figures of a tree, by what they count."""
    tree = Tree(root)
    sizes = [len(text.splitlines()) for text in tree.texts.values()]
    functions, used = tree.functions(), calls(tree)
    bodies, given = list(map(body_lines, functions)), list(map(parameters, functions))
    classes = [node for node in tree.nodes() if isinstance(node, ast.ClassDef)]
    records = [node for node in classes if any("dataclass" in ast.unparse(mark) for mark in node.decorator_list)]
    private = [f for f in functions if f.name.startswith("_") and not f.name.startswith("__")]
    once = [f for f in private if used[f.name] == 1]
    inner = [node for f in functions for node in ast.walk(f) if isinstance(node, ast.Import | ast.ImportFrom)]
    text = "\n".join(tree.texts.values())
    blank = sum(not line.strip() or line.strip().startswith("#") for line in text.splitlines())
    docs, core = count_docs(tree), tree.core()
    tests = [path.read_text("utf-8") for path in (root / "tests").rglob("*.py")]
    figures = {
        "lines; code; docstrings": f"{tree.lines():,}; {tree.lines() - docs - blank:,}; {docs:,}",
        "lines of the core; its modules": f"{tree.lines(core):,}; {len(core)}",
        "modules; median; longest; > 400 lines": (
            f"{len(sizes)}; {statistics.median(sizes):.0f}; {max(sizes)}; {sum(size > LONG_FILE for size in sizes)}"
        ),
        "classes; dataclasses": f"{len(classes)}; {len(records)}",
        "functions; bodies > 40; > 60 lines": (
            f"{len(functions):,}; {'; '.join(str(sum(n > most for n in bodies)) for most in LONG_BODIES)}"
        ),
        "functions of > 6; > 10 parameters": "; ".join(str(sum(n > most for n in given)) for most in MANY_PARAMETERS),
        "private functions; called once, their lines": (
            f"{len(private)}; {len(once)}, {sum((f.end_lineno or 0) - f.lineno + 1 for f in once):,}"
        ),
        "number constants": str(len(tree.constants())),
        "imports in functions": str(len(inner)),
        "Any; type: ignore; noqa": f"{used['Any']:,}; {text.count('type: ignore')}; {text.count('noqa')}",
        "tests: lines; files; functions": (
            f"{sum(len(text.splitlines()) for text in tests):,}; {len(tests)}; "
            f"{sum(text.count('def test_') for text in tests):,}"
        ),
        "words of pages": f"{tree.words():,}",
    }
    for name in ROOTS:
        reached = tree.reach(f"dkernel.{name}")
        figures[f"{name} reaches modules; lines"] = f"{len(reached)}; {tree.lines(reached):,}"
    return figures


def main(arguments: list[str] | None = None) -> int:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("trees", nargs="*", type=Path, default=[Path(__file__).resolve().parents[1]])
    trees = ask.parse_args(arguments).trees
    columns = [measure(tree) for tree in trees]
    print(f"| | {' | '.join(map(str, trees)) if len(trees) > 1 else 'this tree'} |")
    print("|---|" + "---|" * len(trees))
    for name in columns[0]:
        print(f"| {name} | {' | '.join(column[name] for column in columns)} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
