"""One table decides what a column is: who else looks at a dtype or at a type of Arrow, and at what."""

import ast
import re
from pathlib import Path

import dkernel

ROOT = Path(dkernel.__file__).parent
LOOKS = re.compile(r"dtype\)?\.kind$|^pa\.types\.is_|issubdtype|\.api\.types")

# The rooms by which rows come in; the others see blocks, which are numbers or objects.
ROOMS = ("data", "estimators", "cli")

GATE = {
    "data/column_types.py": {"", "is_bytes", "column_type", "arrow_type", "label_type", "has_more_digits"},
}
"""Decide what a column is."""

LAYOUT = {
    "data/arrow.py": {"look_up"},  # categories without their codes
    "data/block.py": {"as_label", "as_weight", "as_whole_label", "is_missing", "_as_targets"},  # arrays of labels
    "data/collections/object_arrays.py": {"find_kinds"},  # arrays of objects
    "data/collections/tables.py": {"as_rows", "column_kinds", "has_missing", "_from_objects"},  # objects, codes, NaN
    "data/encoding/columns.py": {"NumberColumn.fill"},  # which values are NaN
    "data/encoding/counts.py": {"NumberCount.of", "TableCounts.of"},  # NaN; labels that have means
    "data/encoding/encoding.py": {"Encoding._fill"},  # which values are NaN
    "data/encoding/label_means.py": {"LabelPart.of", "_copies_of_rows", "has_weight"},  # labels that have means
    "data/encoding/tables.py": {"_whole_steps", "column_numbers", "find_zone"},  # units and zones of times
    "data/encoding/words.py": {"_words_by_type"},  # spelling of a value
    "data/readers/array_file.py": {"_is_neutral"},  # fill values
    "data/readers/arrow_tables.py": {"_plain", "bytes_in", "common_type"},  # categories without their codes, scales
    "data/readers/folder_keys.py": {"_features"},  # dtype of the block
    "data/readers/parquet.py": {"_read_pandas_metadata"},  # columns that are stored as codes
    "data/rejected_rows.py": {"find_bad_values", "find_largest"},  # which values are finite
    "data/source.py": {"_take_part"},  # texts of any width
    "data/writers/csv.py": {"_csv_can_hold", "_plain"},  # what a format holds
    "data/writers/format.py": {"is_number_type", "is_text"},  # what a format holds
    "data/writers/formats.py": {"Npy.check", "Zarr.check"},  # what a format holds
    "estimators/conformal.py": {"_check_rows"},  # which values are finite
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
    assert found == GATE | LAYOUT, "a function that decides what a column is belongs to dkernel/data/column_types.py"
