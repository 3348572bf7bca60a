"""The reasons of a choice, in sentences: they name its candidates, and by how much it won."""

from collections.abc import Callable, Sequence
from typing import Any

from dkernel.training.selection.candidates import Candidate
from dkernel.training.selection.judge import Trial
from dkernel.training.selection.rungs import Search


def explain_choice(search: Search, trial: Trial) -> dict[str, str]:
    """Explain each part of the choice that was open by a sentence.

    Parameters
    ----------
    trial : best trial
    """
    best, families, candidates, levels = trial.candidate, search.space.families, search.candidates, search.judge.levels
    rows, why = f"{len(search.judge.split.X_judged):,} other rows", {}

    def margin(value: Callable[[Candidate], Any], alike: Callable[[Candidate], Any]) -> str:
        return _margin(best, levels, value, alike)

    if len(families) > 1 or best.plain:
        tried = ", ".join(type(kernel).__name__ for kernel in families)
        verdict = "no worse than" if best.plain else "the best of"  # the linear kernel is judged after the others
        won = margin(lambda c: type(c.kernel).__name__, lambda _: None)
        why["kernel"] = f"{best.kernel!r}, {verdict} {tried}{won}"
    rounds, components = search.metric_rounds.get(id(best.family), ([], 0))
    if rounds:
        before, after = rounds[0], min(rounds[1:])
        verdict = "learned"
        if best.metric == "identity":
            verdict = "not learned, the gain is too small" if after < before else "not learned, as it is no gain"
        losses = f"loss {before:.4g} -> {after:.4g} with {components:,} components"
        why["metric"] = f"{best.metric}: {verdict} ({losses})"
    if len({c.scaling.kind for c in candidates}) > 1:
        tried = " and ".join(dict.fromkeys(c.scaling.kind for c in candidates))
        won = margin(lambda c: c.scaling.kind, lambda c: c.family)
        why["scale"] = f"{best.scaling.kind}, the best of {tried} on {rows}{won}"
    if len(search.space.grid(best.family)) > 1:
        won = margin(lambda c: f"{c.factor:g} x", lambda c: (c.family, c.scaling))
        tried = f"the best of {len(candidates)} on {rows}{won or f': loss {trial.loss:.4g}'}"
        gamma, median = getattr(best.kernel, "gamma", None), f"{best.factor:g} x the median heuristic"
        why["gamma"] = f"{median if gamma is None else f'{gamma:.4g} ({median})'}, {tried}"
    return why


def _margin(
    best: Candidate,
    levels: Sequence[Sequence[Trial]],
    value: Callable[[Candidate], Any],
    alike: Callable[[Candidate], Any],
) -> str:
    """Describe the losses of the best value and of the next one, when both were last judged together.

    Parameters
    ----------
    levels : trials that were judged together, the best first
    value : value of a candidate
    alike : property that a candidate must share with the best
    """
    for level in reversed(levels):
        losses: dict[Any, float] = {}
        for trial in level:
            if alike(trial.candidate) == alike(best):
                losses.setdefault(value(trial.candidate), trial.loss)
        mine = losses.pop(value(best), None)
        if mine is not None and losses:
            other = min(losses, key=losses.__getitem__)
            return f": loss {mine:.4g}, runner-up {other} {losses[other]:.4g}"
    return ""
