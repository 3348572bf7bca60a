"""The table of costs and the scripts that measure it: none has a number that the other does not know."""

import ast
import re
from pathlib import Path

from dkernel.streaming import cost

BENCH = Path(__file__).resolve().parents[2] / "scripts" / "bench"
TEXT = "".join((BENCH / name).read_text(encoding="utf-8") for name in ("costs.py", "cost_numbers.py"))


def numbers():
    """Names of the module's numbers."""
    body = ast.parse(Path(cost.__file__).read_text(encoding="utf-8")).body
    plain = {node.targets[0].id for node in body if isinstance(node, ast.Assign)}
    return plain | {node.target.id for node in body if isinstance(node, ast.AnnAssign)}


def test_every_number_of_the_table_is_measured_by_a_script():
    assert sorted(name for name in numbers() if not re.search(rf"\b{name}\b", TEXT)) == []


def test_every_number_that_a_script_measures_is_in_the_table():
    measured = set(re.findall(r"\b[A-Z0-9]+(?:_[A-Z0-9]+)*_(?:FLOPS|SECONDS|BYTES|BASE|OVERHEAD)\b", TEXT))
    assert measured <= numbers()
