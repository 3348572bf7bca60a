"""Cells: the settings of the stage as one value."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dkernel.model.local_settings import LocalSettings, register_stage
from dkernel.model.recipe_checks import count_parameter, parameter, real, word_or

if TYPE_CHECKING:
    from dkernel.model.local.base import LocalMachine


@register_stage("cells")
@dataclass(repr=False)
class Cells(LocalSettings):
    """Settings of cells, the local stage of an exact machine in each cell of a partition.

    Parameters
    ----------
    The parameters are those of the signature; `help` describes each.

    See Also
    --------
    Grids : Settings of the other local stage.
    KernelClassifier : Classifier whose `local` may be one of them.

    Examples
    --------
    >>> Cells(rows=2048, partitions=2)
    Cells(rows=2048, partitions=2)
    """

    rows: str | int = count_parameter(
        'Most rows of a cell, at least 16; "auto" is 4,096. The work of the cells grows with the square of it.',
        least=16,
    )
    overlap: str | float = parameter(
        "auto",
        'Rows beyond its walls that each cell learns from too, as a share of its own, 0 to 2; "auto" is 0.5.',
        word_or(real("a number from 0 to 2", lambda v: 0 <= v <= 2)),
        words=("auto",),
        form="SHARE",
        kind="float",
    )
    partitions: str | int = count_parameter(
        'Number of partitions of all rows into cells, whose means are the predictions; "auto" is 1, and 2 of a high '
        "effort. Time and model file grow with it.",
    )

    @staticmethod
    def _machine() -> "type[LocalMachine]":
        from dkernel.leaves.cells.cell_machine import CellMachine

        return CellMachine
