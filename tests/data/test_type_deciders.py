"""One table decides what a column is: who else looks at a dtype or at a type of Arrow, and at what."""

import ast
import re
from pathlib import Path

import dkernel
from tests.conftest import ABSENT

ROOT = Path(dkernel.__file__).parent
LOOKS = re.compile(r"dtype\)?\.kind$|^pa\.types\.is_|issubdtype|\.api\.types")

# The rooms by which rows come in; the others see blocks, which are numbers or objects.
LEAVES = ("arrays", "lakes", "svmlight", "transforms", "tuning")
ROOMS = ("data", "estimators", "cli", *(f"leaves/{leaf}" for leaf in LEAVES))

GATE = {
    "data/column_types.py": {"", "arrow_type", "has_more_digits", "is_bytes", "value_type"},
}
"""Decide what a column is."""

LAYOUT = {
    "data/arrow.py": {"_whole_steps", "find_zone"},  # units and zones of times
    "data/block.py": {"as_label", "as_whole_label", "is_missing", "_as_targets"},  # arrays of labels
    "data/collections/tables.py": {"as_rows", "column_kinds", "_from_objects"},  # objects, codes
    "data/encoding/columns.py": {"NumberColumn.fill"},  # which values are NaN
    "data/encoding/counts.py": {"NumberCount.of"},  # which values are NaN
    "data/encoding/encoding.py": {"Encoding._fill"},  # which values are NaN
    "data/encoding/words.py": {"_words_by_type"},  # spelling of a value
    "leaves/arrays/array_file.py": {"_in_unit"},  # units of times
    "data/readers/folder_keys.py": {"_features"},  # dtype of the block
    "data/readers/parquet.py": {"_read_stored_types", "_write_shares"},  # columns that are stored as codes
    "data/rejected_rows.py": {"find_bad_values"},  # which values are finite
    "data/source.py": {"_take_part"},  # texts of any width
    "data/writers/formats.py": {"Parquet.stage"},  # columns that are stored as codes
    "estimators/conformal.py": {"collect_conformal"},  # which values are finite
    "estimators/validation.py": {"as_plain", "parse_categorical"},  # labels of objects; masks and positions
}
"""Look at how values are stored, once it is known what they are."""


def find_lookers(node, names=()):
    """The qualified names of the functions that look at a type, "" for the module."""
    found = set()
    for child in ast.iter_child_nodes(node):
        inner = (*names, child.name) if isinstance(child, ast.FunctionDef | ast.ClassDef) else names
        found |= {".".join(names)} if isinstance(child, ast.Attribute) and LOOKS.search(ast.unparse(child)) else set()
        found |= find_lookers(child, inner)
    return found


def test_only_the_table_of_types_decides_what_a_column_is():
    found = {}
    for path in sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py")):
        if names := find_lookers(ast.parse(path.read_text(encoding="utf-8"))):
            found[path.relative_to(ROOT).as_posix()] = names
    known = GATE | LAYOUT
    known = {path: known[path] for path in known if not path.startswith(tuple(f"leaves/{leaf}/" for leaf in ABSENT))}
    assert found == known, "a function that decides what a column is belongs to dkernel/data/column_types.py"
