"""Effects of the features on a model: permutation importance and partial dependence on unseen rows."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.data.block import Block
from dkernel.inference.importance import importances
from dkernel.model.model import Model
from dkernel.solvers.reservoir_split import part_of

MOST_EFFECT_ROWS = 2048  # rows of the holdout, which give a share to a percent
MOST_TRIED = 100  # columns: each takes the scores of many rows
MOST_SHOWN = 30  # bars that a picture can show
MOST_DEPENDENCES = 4  # pictures, two lines of a page


@dataclass(frozen=True, eq=False)
class Dependence:
    """Mean answer of a model over all rows, with one feature set to each value of `grid` in turn.

    answers : (steps, k): a score for two classes, the prediction of a regression, else a share of each class predicted
    """

    name: str
    grid: NDArray[np.float64]
    answers: NDArray[np.float64]


def strongest(model: Model) -> list[tuple[str, float]]:
    """Features and their shares in the learned metric, the largest first; nothing where no metric was learned."""
    return sorted((model.column_weights or {}).items(), key=lambda pair: -pair[1])


def columns_by_importance(model: Model, rows: Block) -> list[tuple[str, float]]:
    """Columns, and what shuffling their values once costs of accuracy or R², the most first."""
    if not (names := _columns_to_try(model, rows)):
        return []
    lost = importances(model, part_of(rows, slice(MOST_EFFECT_ROWS)), names, shuffles=1)
    return sorted(((name, mean) for name, (mean, _) in lost.items()), key=lambda pair: -pair[1])[:MOST_SHOWN]


def dependences(model: Model, rows: Block, names: list[str]) -> list[Dependence]:
    """Partial dependence on the first of these columns that are one number, from its 2nd to its 98th percentile."""
    effects, X, places = [], rows.X[: MOST_EFFECT_ROWS // 4], model.places
    for name in [name for name in names if len(places[name]) == 1][:MOST_DEPENDENCES]:
        (j,) = places[name]
        grid = np.unique(np.quantile(X[:, j].astype(np.float64), np.linspace(0.02, 0.98, 25)))
        answers = []
        for value in grid:
            changed = X.copy()
            changed[:, j] = value
            answers.append(_answer(model, changed))
        effects.append(Dependence(name, grid, np.array(answers)))
    return effects


def reason_not_drawn(model: Model, rows: Block) -> str:
    """Why effects are not drawn; "" if they are."""
    if not model.layout.numeric or rows.X.shape[1] != len(model.inputs):
        return "Not drawn: these rows are sparse, or no numbers, and have no columns whose values could be shuffled."
    if len(model.places) > MOST_TRIED and model.column_weights is None:
        return f"Not drawn: these are more than {MOST_TRIED} columns, and no learned metric says which are strong."
    return ""


def _columns_to_try(model: Model, rows: Block) -> list[str]:
    """The columns to try, the strongest where they are many."""
    if reason_not_drawn(model, rows):
        return []
    if len(model.places) > MOST_TRIED:
        return [name for name, _ in strongest(model)[:MOST_TRIED]]
    return list(model.places)


def _answer(model: Model, X: NDArray[Any]) -> NDArray[np.float64]:
    S = model.scores(X)
    if S.shape[1] == 1:
        return np.asarray(S.mean(axis=0), np.float64)
    return np.bincount(S.argmax(axis=1), minlength=S.shape[1]) / len(S)
