"""Encoding of tables: categories, missing values and dates as inputs that kernels take."""

from dkernel.encoding.columns import CategoryColumn, NumberColumn
from dkernel.encoding.counts import TableCounts
from dkernel.encoding.encoding import Encoding

__all__ = ["CategoryColumn", "Encoding", "NumberColumn", "TableCounts"]
