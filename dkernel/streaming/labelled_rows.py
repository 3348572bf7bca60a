"""Labelled rows that a model is evaluated on or learns: the rows that count, and how messages name them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.data.block import Block
from dkernel.data.source import Source
from dkernel.errors import DataError, TooLargeError
from dkernel.model.model import Model
from dkernel.streaming.schedule import RowSlice


@dataclass(frozen=True)
class LabelledRows:
    """Rows that count, of a piece of labelled rows, and their places for messages.

    Parameters
    ----------
    files : of each unit
    firsts : for each unit the global number of the first row of its file; in files rows are counted from 1
    counted : words for how rows are counted, where some were left out
    """

    files: tuple[str, ...]
    firsts: tuple[int, ...]
    counted: str = ""

    @classmethod
    def of(cls, source: Source) -> "LabelledRows":
        """The places of the rows of a source."""
        firsts, begins, at = [], 0, 0
        for i, unit in enumerate(source.units):
            if i == 0 or unit.name != source.units[i - 1].name:
                begins = at
            firsts.append(begins - bool(source.files))
            at += unit.n_rows
        without = " (without the bad rows)" if source.rejected is not None and len(source.rejected) else ""
        return cls(tuple(unit.name for unit in source.units), tuple(firsts), without)

    def name(self, piece: RowSlice, row: int) -> str:
        """File and number of a row of a piece."""
        unit = piece.range.unit
        return f"{self.files[unit]}, row {piece.first + row * piece.step - self.firsts[unit]}{self.counted}"

    def scores(self, model: Model, X: NDArray[Any], name: Callable[[int], str]) -> NDArray[np.floating]:
        """The scores of rows; one that has none is refused with its name."""
        try:
            return model.scores(X)
        except TooLargeError as error:
            raise DataError(error.at(name)) from None

    def parts(
        self, block: Block, piece: RowSlice
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.float64], Callable[[int], str]]:
        """Features, labels and weights of the rows of a piece that count, and what names each of them."""
        assert block.y is not None
        X, y = block.X[piece.range.rows], block.y[piece.range.rows]
        if block.weight is None:
            return X, y, np.ones(piece.n), partial(self.name, piece)
        weight = block.weight[piece.range.rows]
        some = np.flatnonzero(weight)
        if len(some) == len(weight):
            return X, y, weight, partial(self.name, piece)
        return X[some], y[some], weight[some], lambda row: self.name(piece, int(some[row]))
