"""The catalogue of local machines."""

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from dkernel.local.base import LocalMachine
from dkernel.local.cell_machine import CellMachine
from dkernel.local.grid_machine import GridMachine

MACHINES: dict[str, type[LocalMachine]] = {machine.kind: machine for machine in (GridMachine, CellMachine)}
"""Kind in a model file -> class."""


def local_machine(spec: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> LocalMachine:
    """The machine that `spec` and `arrays` describe.

    Raises
    ------
    ValueError
        where they describe none
    """
    if spec["kind"] not in MACHINES:
        raise ValueError(f"There is no local machine {spec['kind']!r}.")
    return MACHINES[spec["kind"]].build(spec, arrays)
