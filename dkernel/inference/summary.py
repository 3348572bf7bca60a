"""The summary of a fit for people: what the model is, how good beside simpler ones, how sure, and what to check."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dkernel.errors import escape_controls
from dkernel.inference.baselines import baselines
from dkernel.inference.drift import WARNED_COLUMNS, describe, find_drift, measure_moments
from dkernel.losses.scoring import BY_LOSS
from dkernel.model.model import Model
from dkernel.model.recipe import Recipe
from dkernel.model.solver_table import SOLVERS, SolverEntry, early_end
from dkernel.model.wording import describe_model, format_figure, format_of_rows, format_rows, format_share
from dkernel.training.fit import TrainResult

RARE = 0.1  # share of the rows: of a class with less, the accuracy says little
CLEAR = 2.0  # standard errors: beyond lies a twentieth of the differences that chance makes
LEAST_CLEAR_ROWS = 20  # fewer say nothing of a difference
SHOWN_CLASSES = 4  # rare classes that a line names
SIMPLER = {"constant": "", "linear": "linear model", "boosted": "boosted trees"}
"""Name of a model to compare with, of `baselines` -> words; a constant is named by what it says."""
CHOICES = (
    "way",
    "kernel",
    "metric",
    "scale",
    "gamma",
    "loss",
    "features",
    "n_components",
    "passes",
    "polish",
    "alpha",
    "local",
    "categories",
    "missing",
)
"""Lines of a fit that say what it chose, or how it read the columns. Its others are to check."""
_OF_RANKING = {"roc_auc": "auc", "average_precision": "average_precision"}  # scorer -> its name in `baselines`
_EXACT_NUMBER = re.compile(r"\b\d+\.\d{6,}(e-?\d+)?")  # of a kernel, whose text is read back exactly
_CHOSEN_BY_ROWS = {"way", "loss", "alpha", "local"}


@dataclass(frozen=True, eq=False)
class FitSummary:
    """The summary of a fit.

    Parameters
    ----------
    model : in words
    rows : that it has learned from, in words
    judged : of `baselines`, with `chose`: whether the rows that judge have also chosen something, and `different`:
        whether equal ones of them were merged
    checks : name -> what to look at
    choices : name -> what was chosen, and why
    """

    model: str
    rows: str
    judged: Mapping[str, Any]
    checks: Mapping[str, str]
    choices: Mapping[str, str]

    @classmethod
    def of(cls, result: TrainResult, which: str = "linear") -> "FitSummary":
        """The summary of a fit, whose model is compared with simpler ones as `baselines` says."""
        known, judged = cls.of_model(result.model), baselines(result, which)
        if not judged:
            return known
        shift = {"shift": text} if (text := _shift(result)) else {}
        return replace(known, judged={**known.judged, **judged}, checks={**known.checks, **shift})

    @classmethod
    def of_model(cls, model: Model) -> "FitSummary":
        """The summary of a model, of what its file has: no other model to compare with."""
        classes = None if model.classes is None else {"values": model.classes.tolist()}
        header = {"recipe": model.recipe.to_dict(), "facts": model.facts, "classes": classes, "columns": model.columns}
        return cls.of_header(header)

    @classmethod
    def of_header(cls, header: Mapping[str, Any]) -> "FitSummary":
        """The summary of a model by the header of its file."""
        recipe, facts, columns = header["recipe"], header["facts"], header["columns"]
        columns = columns["n"] if isinstance(columns, Mapping) else len(columns)
        labels = None if header["classes"] is None else header["classes"]["values"]
        lines, solver = facts.get("chosen", {}), SOLVERS[recipe["solver"]]
        form = describe_model(recipe, facts, columns)
        asked, holdout = recipe["scoring"], facts.get("holdout", {})
        rows, counts = facts.get("rows", 0), facts.get("counts", ())
        different = solver.in_memory and sum(counts) > rows
        # Of a fit to rows of which none are held out, others judge: those of --eval-set (eval_set).
        own_holdout = recipe.get("holdout") or recipe.get("holdout_by", Recipe.holdout_by) != Recipe.holdout_by
        more_rows = "holdout=0.3" if own_holdout else "give more in eval_set"
        rare, share = _rare_classes(labels, counts, holdout.get("rows", math.inf), more_rows)
        checks = {name: text for name, text in lines.items() if name not in CHOICES} | ({"rare": rare} if rare else {})
        return cls(
            form,
            format_rows(rows, different),
            {
                **_held_out(holdout),
                "scoring": {asked: holdout[asked]} if asked != BY_LOSS and asked in holdout else {},
                "different": different,
                "chose": bool(_CHOSEN_BY_ROWS & lines.keys()) or solver.in_rounds,
                "rarest": share,
                "no_simpler": ["boosted", "linear"] if form.startswith("linear model") else ["boosted"],
                "most_frequent": repr(labels[int(np.argmax(facts["counts"]))])
                if labels and "counts" in facts
                else None,
            },
            checks | _early_end(facts, solver),
            {
                name: _EXACT_NUMBER.sub(lambda m: f"{float(m[0]):.4g}", text)
                for name, text in lines.items()
                if name in CHOICES
            },
        )

    def lines(self, verbose: bool = False) -> Iterator[str]:
        """Lines of text.

        Parameters
        ----------
        verbose : with the choices
        """
        yield from _indent({"model": self.model, **dict(_quality(self.judged))})
        if self.checks:
            yield "Check:"
            yield from _indent(self.checks)
        if verbose and self.choices:
            yield "Choices:"
            yield from _indent(self.choices)


def _indent(lines: Mapping[str, str]) -> Iterator[str]:
    for name, text in lines.items():
        yield escape_controls(f"  {name:<12} {text}")


def _held_out(figures: Mapping[str, Any]) -> dict[str, Any]:
    """The figures of a holdout as `baselines` has them, but for the standard error: that takes the rows."""
    if not figures:
        return {}
    name = "rmse" if "rmse" in figures else "error"
    value = float(figures["rmse"] if name == "rmse" else 1 - figures["accuracy"])
    return {"rows": int(figures["rows"]), "figure": name, "model": {"value": value}}


def _rare_classes(
    labels: Sequence[Any] | None, counts: Sequence[float], rows: float, more_rows: str
) -> tuple[str, float]:
    """The classes of few rows in words, and the share of the rarest.

    Parameters
    ----------
    rows : that judge
    more_rows : what to do where few of these have a class
    """
    if not labels or not len(counts):
        return "", 1.0
    shares = np.array(counts, np.float64) / max(sum(counts), 1.0)
    limit = min(RARE, 0.5 / len(counts))  # of many classes of equal size none is rare
    order = np.argsort(shares, kind="stable")[: int((shares < limit).sum())]
    if not len(order):
        return "", 1.0
    names = ", ".join(
        f"{labels[i]!r} ({format_figure('error', shares[i], 0.0)} of the rows)" for i in order[:SHOWN_CLASSES]
    )
    more = f" and {len(order) - SHOWN_CLASSES} more" if len(order) > SHOWN_CLASSES else ""
    where = "look at roc_auc and average_precision" if len(counts) == 2 else "dkernel evaluate prints their recall"
    text = f"{names}{more}: the share of wrong labels says little of so few rows; {where}, and scoring lets them judge"
    share = float(shares.min())
    if share * rows < LEAST_CLEAR_ROWS:
        text += f"; some {math.ceil(share * rows):,} of the rows left out are too few to judge by: {more_rows}"
    return text, share


def _shift(result: TrainResult) -> str:
    """Columns whose values differ between the rows that judge and those that were learned from."""
    if result.holdout is None or not result.model.layout.numeric:
        return ""
    drifted = find_drift(result.model, [measure_moments(result.model, [result.holdout])])
    return "; ".join(describe(drifted)[:WARNED_COLUMNS]).replace(" here", " in the rows left out")


def _early_end(facts: Mapping[str, Any], entry: SolverEntry) -> dict[str, str]:
    ended, solver = early_end(facts), facts.get("solver") or {}
    if "passes" not in solver:
        return ended
    option = "polish" if entry.in_rounds else "passes"
    return {name: f"{text}; for more: {option}={2 * solver['passes']}" for name, text in ended.items()}


def _quality(judged: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if "model" not in judged:
        return
    figures, figure = judged["model"], judged["figure"]
    value, error, n = figures["value"], figures.get("standard_error"), judged["rows"]
    sure = "" if error is None else f" (± {format_of_rows(figure, error, n, value).removesuffix(' %')})"
    chose = ", which also chose the settings" if judged["chose"] else ""
    asked = [f"{name} {format_of_rows(name, each, n)}" for name, each in judged["scoring"].items()]
    ranking = [each for each in _ranking(judged, figures) if each.split()[0] not in judged["scoring"]]
    merits = ", ".join([f"{format_of_rows(figure, value, n)}{sure}", *asked, *ranking])
    rows = format_rows(judged["rows"], judged["different"])
    yield figure, f"{merits} on {rows} left out{chose}"
    if others := "; ".join(verdict(judged, name) for name in SIMPLER if name in judged):
        yield "compare", others
    if judged.get("sure"):
        yield "sure", describe_sure(judged["sure"], judged["rows"])


def _ranking(judged: Mapping[str, Any], merits: Mapping[str, Any]) -> list[str]:
    """AUC and average precision, where a class is rare."""
    if not judged["rarest"] < RARE:
        return []
    known = [(name, merits[key]) for name, key in _OF_RANKING.items() if merits.get(key) is not None]
    return [f"{name} {format_of_rows(name, value, judged['rows'])}" for name, value in known]


def verdict(judged: Mapping[str, Any], name: str) -> str:
    """How a model compares with a simpler one, in words.

    Parameters
    ----------
    name : one of SIMPLER

    Examples
    --------
    >>> judged = {"rows": 600, "figure": "error", "rarest": 0.4, "model": {"value": 0.2363}}
    >>> verdict({**judged, "linear": {"value": 0.2483, "gain": 0.012, "gain_error": 0.02}}, "linear")
    'linear model 24.8 %: no clear difference (consider it: it is simpler)'
    >>> verdict({**judged, "linear": {"value": 0.351, "gain": 0.12, "gain_error": 0.0213}}, "linear")
    'linear model 35.1 %: clearly worse'
    """
    other, figure = judged[name], judged["figure"]
    value = format_of_rows(figure, other["value"], judged["rows"], judged["model"]["value"])
    text = "the mean" if figure == "rmse" else "the most frequent class"
    what = SIMPLER[name] or (f"always {judged['most_frequent']}" if judged.get("most_frequent") else text)
    if name == "linear" and not is_simpler(judged, name):
        what = "plain linear model"
    what = f"{what} {', '.join([value, *_ranking(judged, other)])}"
    if is_clear(judged, name):
        return f"{what}: clearly {'worse' if other['gain'] > 0 else 'better'}"
    return f"{what}: no clear difference" + " (consider it: it is simpler)" * is_simpler(judged, name)


def is_clear(judged: Mapping[str, Any], name: str) -> bool:
    """True if the rows that judge tell the model from another one."""
    gain, error = float(judged[name]["gain"]), float(judged[name]["gain_error"])
    return judged["rows"] >= LEAST_CLEAR_ROWS and abs(gain) > CLEAR * error


def is_simpler(judged: Mapping[str, Any], name: str) -> bool:
    """True if another model is simpler than the fit."""
    return name not in judged.get("no_simpler", ("boosted",))


def describe_sure(sure: Mapping[str, float], n: int) -> str:
    """How sure a model is on n rows, of `baselines`, in words."""
    if "within" in sure:
        distance = format_of_rows("width", sure["within"], n)
        return f"{100 * sure['share']:g} % of the rows are within {distance} of their prediction"
    if not sure["share"]:
        return f"no row has a probability of {sure['probability']:g} or more"
    rows = f"{format_share(sure['share'], n)} of the rows have a probability of {sure['probability']:g} or more"
    return f"{rows}; {format_share(sure['error'], n * sure['share'])} of these are wrong"
