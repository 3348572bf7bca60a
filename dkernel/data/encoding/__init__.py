"""Encoding of tables: categories, missing values and dates as inputs that kernels take."""

from dkernel.data.encoding.columns import CategoryColumn, NumberColumn
from dkernel.data.encoding.counts import TableCounts
from dkernel.data.encoding.encoding import Encoding

__all__ = ["CategoryColumn", "Encoding", "NumberColumn", "TableCounts"]
