"""A table of text, as several commands print one."""

from collections.abc import Iterator, Sequence


def align_columns(rows: Sequence[Sequence[str]], right: bool = False) -> Iterator[str]:
    """The rows with columns of one width each; with `right` those after the first end where their column does.

    Examples
    --------
    >>> list(align_columns([("name", "n"), ("a", "10")])), list(align_columns([("name", "n"), ("a", "10")], right=True))
    (['name  n', 'a     10'], ['name   n', 'a     10'])
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            cell.rjust(width) if right and j else cell.ljust(width)
            for j, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()
