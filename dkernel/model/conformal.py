"""Conformal prediction: how far a label may be from its prediction, by rows that a fit left out.

    conformity score    |y - s(x)| / w(x) of a number;  1 - P(y | x) of a class
    q                   the ceil(coverage (n + 1))-th smallest score of n rows that were left out
    interval            s(x) - q w(x) ... s(x) + q w(x)
    set                 the classes with 1 - P(class | x) <= q

A row that is drawn as these were is covered with a probability of `coverage` at least, whatever the model and the law
of the data: split conformal prediction. That is a mean over rows. With a q for each class, or for each group of rows,
it holds in each of them (Mondrian conformal prediction).

Sources: Vovk, Gammerman and Shafer 2005; Lei, G'Sell, Rinaldo, Tibshirani and Wasserman 2018 (widths); Sadinle, Lei and
Wasserman 2019 (sets of least mean size).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.data.group_words import group_words
from dkernel.errors import DataError, RecipeError, UnsupportedError
from dkernel.model.local_width import LocalWidth
from dkernel.numerics.array_record import arrays_under
from dkernel.numerics.array_types import F64

GroupName = bool | int | float | str
RowGroups = Sequence[Any] | NDArray[Any]

# Of a table: neighbours share the larger score, which moves a coverage by a thousandth at most. So many rows know a
# coverage to a hundredth: where that many are new, no older ones are needed.
MOST_SCORES = 1024
# Distance of two laws, in sqrt(1/n + 1/m), that equal ones reach once in a thousand times (Kolmogorov and Smirnov).
CHANGED = 1.95
COVERAGE = 0.9  # that of most published intervals
_OF_SCORES = ("scores", "mass", "stratum", "group")  # arrays of a table, with a number for each score


@dataclass(frozen=True, eq=False)
class Conformal:
    """Conformity scores of rows that were left out.

    Parameters
    ----------
    scores : float64 (m,), not negative
    mass : rows that each of them stands for, float64 (m,); of weighted rows their weight over the mean weight
    stratum : class of each, or target of a regression of several, int32 (m,)
    group : number of the group of each, int32 (m,)
    groups : their words, empty where rows have no groups
    width : w, None where it is 1 everywhere
    """

    scores: F64
    mass: F64
    stratum: NDArray[np.int32]
    group: NDArray[np.int32]
    groups: tuple[GroupName, ...] = ()
    width: LocalWidth | None = None

    @classmethod
    def of(cls, scores: F64, weight: F64, stratum: NDArray[Any], groups: RowGroups | None = None) -> "Conformal":
        """The table of scores (n,) of rows of a weight (n,), a stratum (n,) and perhaps a group (n,).

        Examples
        --------
        >>> table = Conformal.of(np.arange(1.0, 10.0), np.ones(9), np.zeros(9))
        >>> table.quantile(0.9), table.quantile(0.5)
        (9.0, 5.0)
        """
        names: tuple[GroupName, ...] = ()
        codes: NDArray[Any] = np.zeros(len(scores), np.int32)
        if groups is not None:
            distinct, codes = np.unique(group_words(groups), return_inverse=True)
            names = tuple(distinct.tolist())
        mass = weight / weight.mean()
        return cls(scores, mass, stratum.astype(np.int32), codes.astype(np.int32), names)._short()

    @classmethod
    def of_classes(cls, P: F64, codes: NDArray[Any], weight: F64, groups: RowGroups | None = None) -> "Conformal":
        """The table of rows with probabilities (n, n_classes) and the number of their class (n,)."""
        return cls.of(1.0 - P[np.arange(len(P)), codes], weight, codes, groups)

    @classmethod
    def of_numbers(cls, ratios: F64, weight: F64, groups: RowGroups | None = None) -> "Conformal":
        """The table of rows with errors over widths (n, targets)."""
        n, targets = ratios.shape
        each = None if groups is None else np.repeat(group_words(groups), targets)
        return cls.of(ratios.reshape(-1), np.repeat(weight, targets), np.tile(np.arange(targets), n), each)

    def _short(self) -> "Conformal":
        """The table with at most MOST_SCORES scores, and one more for each class and group."""
        each = -(-len(self.scores) // MOST_SCORES)
        order = np.lexsort((self.scores, self.stratum, self.group))
        cells = np.stack([self.group, self.stratum])[:, order]
        begins = np.flatnonzero(np.append(True, (np.diff(cells, axis=1) != 0).any(axis=0)))
        first = np.concatenate(
            [np.arange(a, b, each) for a, b in zip(begins, np.append(begins[1:], len(order)), strict=True)]
        )
        last = np.append(first[1:], len(order)) - 1
        return replace(
            self,
            scores=np.ascontiguousarray(self.scores[order][last]),
            mass=np.add.reduceat(self.mass[order], first),
            stratum=np.ascontiguousarray(cells[1, last]),
            group=np.ascontiguousarray(cells[0, last]),
        )

    @property
    def rows(self) -> int:
        """Rows that were left out; of a regression of several targets each counts for each of them."""
        return round(float(self.mass.sum()))

    def join(self, later: "Conformal", share: float = 1.0) -> "Conformal":
        """The table of a share of these rows and of all later ones; neither has groups."""
        old = replace(self, mass=share * self.mass)
        both: dict[str, Any] = {name: np.concatenate([getattr(old, name), getattr(later, name)]) for name in _OF_SCORES}
        return replace(self, **both)._short()

    def differs(self, later: "Conformal", strata: Sequence[int | None]) -> bool:
        """True if the scores of later rows are of another law than these: in one of the strata, None for all rows."""
        for stratum in strata:
            some, others = self._part(stratum), later._part(stratum)
            if not len(some.scores) or not len(others.scores):
                continue
            at = np.union1d(some.scores, others.scores)
            apart = np.abs(some._shares(at) - others._shares(at)).max()
            if apart > CHANGED * np.sqrt(1 / some._effective_rows() + 1 / others._effective_rows()):
                return True
        return False

    def _part(self, stratum: int | None) -> "Conformal":
        some = slice(None) if stratum is None else self.stratum == stratum
        return replace(self, **{name: getattr(self, name)[some] for name in _OF_SCORES})

    def _shares(self, at: F64) -> F64:
        """Shares of the mass with scores up to each of these."""
        order = np.argsort(self.scores, kind="stable")
        reached = np.append(0.0, np.cumsum(self.mass[order]))
        return np.asarray(reached[np.searchsorted(self.scores[order], at, "right")] / reached[-1])

    def _effective_rows(self) -> float:
        """Rows of equal mass that would tell as much."""
        return float(self.mass.sum() ** 2 / (self.mass**2).sum())

    def quantile(self, coverage: float, stratum: int | None = None, group: int | None = None) -> float:
        """q of a stratum and a group, or of all; infinite where their rows are too few for the coverage."""
        some = np.ones(len(self.scores), bool)
        for codes, number in ((self.stratum, stratum), (self.group, group)):
            some &= True if number is None else codes == number
        order = np.argsort(self.scores[some], kind="stable")
        reached = np.cumsum(self.mass[some][order])
        if not len(reached):
            return np.inf
        needed = coverage * (reached[-1] + 1)
        i = int(np.searchsorted(reached, needed - 1e-9 * needed))  # sums of masses round
        return float(self.scores[some][order[i]]) if i < len(order) else np.inf

    def radii(self, coverage: float, targets: int, groups: RowGroups | None = None) -> F64:
        """q of each target, (targets,); with groups (n,) of each row too, (n, targets).

        Raises
        ------
        RecipeError
            for a coverage that is no share
        DataError
            for a group without rows, and where these are too few for the coverage
        """
        check_coverage(coverage)
        each = range(len(self.groups)) if groups is not None else [None]
        quantiles = np.array([[self.quantile(coverage, j, g) for j in range(targets)] for g in each])
        if groups is None:
            self._check_enough(coverage, quantiles[0], "")
            return np.asarray(quantiles[0])
        codes = self.codes(groups)
        for g in np.unique(codes).tolist():
            self._check_enough(coverage, quantiles[g], f" of group {self.groups[g]!r}")
        return np.asarray(quantiles[codes])

    def limits(self, coverage: float, classes: int, by_class: bool = False, groups: RowGroups | None = None) -> F64:
        """The largest 1 - P of a class that is in a set: (classes,), or of each row (n, classes).

        A class, or a group, of which too few rows were left out is in every set.
        """
        check_coverage(coverage)
        strata = range(classes) if by_class else [None] * classes
        each = range(len(self.groups)) if groups is not None else [None]
        quantiles = np.array([[self.quantile(coverage, j, g) for j in strata] for g in each])
        return np.asarray(quantiles[0] if groups is None else quantiles[self.codes(groups)])

    def codes(self, groups: RowGroups) -> NDArray[np.intp]:
        """The numbers of groups, which are known by their words."""
        if not self.groups:
            raise UnsupportedError(
                "The rows that were left out have no groups. Call conformalize(X, y, groups=...), or dkernel "
                "conformalize MODEL DATA --group COL, with rows that the fit has not seen."
            )
        known = group_words([str(name) for name in self.groups]).tolist()
        number = {word: i for i, word in enumerate(known)}
        values, inverse = np.unique(group_words(groups, known=known), return_inverse=True)
        unknown = [value for value in values.tolist() if value not in number]
        if unknown:
            listed = ", ".join(map(repr, self.groups[:10]))
            raise DataError(f"No row of the group {unknown[0]!r} was left out; the groups are {listed}.")
        return np.array([number[value] for value in values.tolist()], np.intp)[inverse]

    def _check_enough(self, coverage: float, radii: F64, which: str) -> None:
        if np.isinf(radii).any():
            needed = int(np.ceil(np.round(coverage / (1 - coverage), 6)))
            raise DataError(
                f"coverage={coverage:g} needs {needed:,} rows{which} that were left out, and there are fewer. Ask for "
                "less, keep a larger holdout, or call conformalize with more rows."
            )

    def fits(self, n_in: int, strata: int) -> bool:
        """True if it is one of a model of that number of inputs, and of classes or targets."""
        s, mass, stratum, group = self.scores, self.mass, self.stratum, self.group
        if s.ndim != 1 or not len(s) or any(a.shape != s.shape for a in (mass, stratum, group)):
            return False
        if s.dtype != np.float64 or mass.dtype != np.float64 or stratum.dtype != np.int32 or group.dtype != np.int32:
            return False
        known = max(1, len(self.groups))
        coded = 0 <= stratum.min() <= stratum.max() < strata and 0 <= group.min() <= group.max() < known
        return bool(
            coded and (s >= 0).all() and (mass > 0).all() and (self.width is None or self.width.fits(n_in, strata))
        )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Arrays of the table, for a model file."""
        width = {} if self.width is None else {f"width.{k}": v for k, v in self.width.arrays().items()}
        return {**{name: getattr(self, name) for name in _OF_SCORES}, **width}

    @classmethod
    def build(cls, arrays: Mapping[str, NDArray[Any]], groups: Sequence[GroupName]) -> "Conformal":
        """The table again, from `arrays`."""
        width = arrays_under("width.", arrays)
        columns = {name: arrays[name] for name in _OF_SCORES}
        return cls(groups=tuple(groups), width=LocalWidth.build(width) if width else None, **columns)


def check_coverage(coverage: float) -> None:
    """Refuse a coverage that is no share."""
    if isinstance(coverage, bool) or not isinstance(coverage, int | float | np.number) or not 0 < coverage < 1:
        raise RecipeError(f"coverage={coverage!r} is not valid. Possible: a share above 0 and below 1, as 0.9.")
