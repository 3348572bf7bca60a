"""The calls of a round whose workers even it out among themselves.

In a round of many shares whoever lends blocks sends on what others are to sum of them, and answers with one sum of each
of its chunks: so the client has one call a worker and one sum a chunk, however many have helped.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

from dkernel.run.executors import Call, Handle
from dkernel.run.pieces import Piece
from dkernel.run.places import Inside
from dkernel.run.reduce import Statistic, joined, nodes, several
from dkernel.run.shares import Run, Share

__all__ = ["Node", "calls_of", "put_together"]

MANY = 16  # shares of a round; of fewer the client asks all itself, which is a way less

Node = tuple[int, int, int]
"""Chunk, first piece and level of a sum in the tree of its chunk; of all pieces of a chunk (chunk, 0, 0)."""

Plan = Sequence[Sequence[tuple[int, int, int]]]
"""For each sum of an answer the nodes that it is made of: list, place in the list, level."""


def put_together(statistic: Statistic[Any, Any], plan: Plan, lists: Sequence[Sequence[Any]]) -> list[Any]:
    """The sums of a plan; runs on a worker."""
    return [joined([(level, lists[i][k]) for i, k, level in made], statistic.merge) for made in plan]


def calls_of(
    shares: Sequence[Share],
    inside: Inside,
    block: Callable[[Piece], Handle],
    key: str,
    sent: tuple[Any, Any],
    placed: bool = True,
) -> list[tuple[Call, list[Node]]]:
    """The calls of these shares, each with the sums that its value is a list of.

    Parameters
    ----------
    block : handle of the block that a piece stands in
    key : of the round
    sent : the statistic, and what its `step` gets beside the piece
    placed : whether the blocks are where the shares say by now
    """
    helped = len(shares) >= MANY
    groups = [[share] for share in shares if share.lender is None or not helped]
    owners = {(group[0].at, run.chunk): group for group in groups for run in group[0].runs}
    firsts = {group[0].at: group for group in reversed(groups)}  # of a lender with none of the chunk left
    for share in shares:
        if share.lender is not None and helped:
            lender = share.lender
            mine = [owners[lender, run.chunk] for run in share.runs if (lender, run.chunk) in owners]
            (mine or [firsts[lender]])[0].append(share)

    def name(some: Sequence[Share]) -> str:
        return f"{key}-together-{sha256(repr([share.runs for share in some]).encode()).hexdigest()[:16]}"

    def call(share: Share) -> Call:
        blocks = [block(inside[run.chunk][0]) for run in share.runs]
        parts = [[(k, piece) for piece in inside[run.chunk][a:b]] for k, run, a, b, _ in _nodes(share, inside)]
        return Call(name([share]), several, (*sent, blocks, parts), share.at if placed else None, share.lender)

    found = []
    for group in groups:
        first, *helpers = map(call, group)
        made = [(run.chunk, begin, level) for _, run, begin, _, level in _nodes(group[0], inside)]
        if helpers:
            plan, made = _plan(group, inside)
            first = replace(first, key=name(group), helpers=tuple(helpers), then=(put_together, (sent[0], plan)))
        found.append((first, made))
    return found


def _plan(group: Sequence[Share], inside: Inside) -> tuple[Plan, list[Node]]:
    """How the sums of these shares make as few as they can, and which: one of a chunk all of whose pieces are there."""
    there: dict[int, list[tuple[int, int, int, int, int]]] = {}
    for i, share in enumerate(group):
        for at, (_, run, first, last, level) in enumerate(_nodes(share, inside)):
            there.setdefault(run.chunk, []).append((first, last, i, at, level))
    plan: list[list[tuple[int, int, int]]] = []
    made: list[Node] = []
    for chunk, mine in there.items():
        mine.sort()
        if sum(last - first for first, last, *_ in mine) == len(inside[chunk]):
            plan.append([(i, at, level) for _, _, i, at, level in mine])
            made.append((chunk, 0, 0))
        else:
            plan += [[(i, at, 0)] for _, _, i, at, _ in mine]
            made += [(chunk, first, level) for first, _, _, _, level in mine]
    return plan, made


def _nodes(share: Share, inside: Inside) -> list[tuple[int, Run, int, int, int]]:
    """The sums that a share is: number and run of each, its pieces from first to last, its level in the tree."""
    found = []
    for k, run in enumerate(share.runs):
        whole = (run.first, run.last) == (0, len(inside[run.chunk]))
        found += [(k, run, *node) for node in ([(0, run.last, 0)] if whole else nodes(run.first, run.last))]
    return found
