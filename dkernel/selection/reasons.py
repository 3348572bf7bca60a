"""The reasons of a choice, in sentences: they name its candidates, and by how much it won."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dkernel.kernels import Kernel
from dkernel.selection.candidates import Candidate
from dkernel.selection.judge import Trial


@dataclass(frozen=True, eq=False)
class Reasons:
    """The candidates of a choice and their losses.

    Parameters
    ----------
    families, candidates : that it was made from
    levels : those that were judged together, the best first
    rows : that judged them, in words
    """

    best: Candidate
    families: Sequence[Kernel]
    candidates: Sequence[Candidate]
    levels: Sequence[Sequence[Trial]]
    rows: str

    def explain(self, rounds: Sequence[float], components: int, loss: float, open_gamma: bool) -> dict[str, str]:
        """A sentence for each part that was open.

        Parameters
        ----------
        rounds : losses without a metric and after each round that learned one; empty where none was learned
        components : that these were judged on
        loss : of the best
        """
        best, rows, why = self.best, self.rows, {}
        if len(self.families) > 1 or best.plain:
            names = ", ".join(type(kernel).__name__ for kernel in self.families)
            tried = names + " and their sums" * (len(self.families) > 1)
            verdict = "better than" if best.plain else "the best of"  # the linear kernel is judged after the others
            margin = self._margin(lambda c: type(c.kernel).__name__, lambda _: None)
            why["kernel"] = f"{best.kernel!r}, {verdict} {tried}{margin}"
        if rounds:
            before, after = rounds[0], min(rounds[1:])
            verdict = "learned"
            if best.metric == "identity":
                verdict = "not learned, the gain is too small" if after < before else "not learned, as it is no gain"
            losses = f"loss {before:.4g} -> {after:.4g} with {components:,} components"
            why["metric"] = f"{best.metric}: {verdict} ({losses})"
        if len({c.scaling.kind for c in self.candidates}) > 1:
            tried = " and ".join(dict.fromkeys(c.scaling.kind for c in self.candidates))
            margin = self._margin(lambda c: c.scaling.kind, lambda c: c.family)
            why["scale"] = f"{best.scaling.kind}, the best of {tried} on {rows}{margin}"
        if open_gamma:
            margin = self._margin(lambda c: f"{c.factor:g} x", lambda c: (c.family, c.scaling))
            tried = f"the best of {len(self.candidates)} on {rows}{margin or f': loss {loss:.4g}'}"
            gamma, median = getattr(best.kernel, "gamma", None), f"{best.factor:g} x the median heuristic"
            why["gamma"] = f"{median if gamma is None else f'{gamma:.4g} ({median})'}, {tried}"
        return why

    def _margin(self, of: Callable[[Candidate], Any], alike: Callable[[Candidate], Any]) -> str:
        """By how much a value of the best won over the next, where both were last judged together.

        Parameters
        ----------
        of : the value of a candidate
        alike : what a candidate must have in common with the best
        """
        for level in reversed(self.levels):
            losses: dict[Any, float] = {}
            for trial in level:
                if alike(trial.candidate) == alike(self.best):
                    losses.setdefault(of(trial.candidate), trial.loss)
            mine = losses.pop(of(self.best), None)
            if mine is not None and losses:
                value = min(losses, key=losses.__getitem__)
                return f": loss {mine:.4g}, runner-up {value} {losses[value]:.4g}"
        return ""
