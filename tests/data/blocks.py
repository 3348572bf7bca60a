"""What the tasks of a source give."""

import pyarrow as pa

from dkernel.data.block import Block
from dkernel.data.source import Source


def read_blocks(source: Source) -> list[Block]:
    return [block for unit in source.units for block in unit.task.compute(scheduler="sync")]


def read_kept(source: Source) -> pa.Table:
    """The kept columns of all rows."""
    return pa.concat_tables([block.kept for block in read_blocks(source)])
