"""The vector registers of the processor that loops are compiled for."""

from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from llvmlite import binding

from dkernel.numerics.machine_code import processor_features


@dataclass(frozen=True)
class Registers:
    """Vector registers of a kind of processor that has fused multiplication and addition.

    Parameters
    ----------
    name : instruction set
    lanes : float32 numbers of one
    count : how many there are
    """

    name: str
    lanes: int
    count: int

    def groups(self, width: int, rows: int) -> list[range]:
        """Vectors of `width` numbers, in as few groups as leave room for the sums of `rows` rows.

        A group needs its sums, its vectors and one register for a number of a row.

        Examples
        --------
        >>> AVX2.groups(64, 4)
        [range(0, 3), range(3, 6), range(6, 8)]
        """
        vectors, most = width // self.lanes, (self.count - 1) // (rows + 1)
        groups = -(-vectors // most)
        ends = [-(-vectors * k // groups) for k in range(groups + 1)]
        return [range(first, end) for first, end in pairwise(ends)]


AVX512, AVX2, NEON = Registers("AVX-512", 16, 32), Registers("AVX2", 8, 16), Registers("NEON", 4, 32)


@cache
def registers() -> Registers | None:
    """The registers of the processor that loops are compiled for, this one or the one named; None of others."""
    if binding.get_process_triple().startswith(("aarch64", "arm64")):
        return NEON
    features = processor_features().split(",")
    if "+avx512f" in features:
        return AVX512
    return AVX2 if {"+avx2", "+fma"} <= {*features} else None


def kind() -> str:
    """The kind of processor, as a checkpoint names it."""
    target = registers()
    return "neither AVX-512, AVX2 nor NEON" if target is None else target.name
