"""Intervals and sets of an estimator, and the conformity scores of rows that it is given."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.data.block import check_beside, no_weight
from dkernel.data.collections.dask_arrays import compute_values, describe_row, is_dask, unwrap
from dkernel.data.column_types import FLOAT, type_of_dtype
from dkernel.data.compute import dask_compute
from dkernel.errors import DataError
from dkernel.estimators.errors import require_fitted
from dkernel.estimators.groups import apply_by_group, check_groups
from dkernel.estimators.prediction import center_block, interval_block, probability_block, set_block
from dkernel.model.conformal import Conformal, check_coverage
from dkernel.solvers.targets import Targets
from dkernel.training.uncertainty import absolute_errors


def intervals(machine: Any, X: Any, coverage: float, groups: Any) -> Any:
    """Ends of the intervals of rows, (n, 2) or (n, k, 2); of a Dask dataframe (n, 2 k), with names."""
    require_fitted(machine, "model_")
    k, table = len(machine.model_.intercept), machine.model_.known_conformal()
    if groups is None:
        table.radii(coverage, k)  # refuses before a task is made
        ends = machine._answer(X, partial(interval_block, coverage=coverage), "interval", "float64", 2 * k)
    else:
        function = partial(_ends, _group_table(table, coverage), coverage)
        centers = machine._answer(X, center_block, "interval", "float64", 2 * k)
        ends = apply_by_group(centers, groups, function, "float64")
    if k == 1 or hasattr(ends, "index"):
        return ends
    if not is_dask(ends):
        return _pairs(ends)
    return ends.map_blocks(_pairs, new_axis=2, chunks=(ends.chunks[0], (k,), (2,)), meta=np.empty((0, 0, 0)))


def sets(machine: Any, X: Any, coverage: float, by_class: bool, groups: Any) -> Any:
    """Whether each class is in the set of each row, (n, n_classes)."""
    require_fitted(machine, "model_")
    k, table = len(machine.classes_), machine.model_.known_conformal()
    if groups is None:
        check_coverage(coverage)
        function = partial(set_block, coverage=coverage, by_class=by_class)
        return machine._answer(X, function, "set", "bool", k)
    function = partial(_sets, _group_table(table, coverage), coverage, by_class)
    return apply_by_group(machine._answer(X, probability_block, "set", "float64", k), groups, function, "bool")


def _pairs(ends: NDArray[np.float64]) -> NDArray[np.float64]:
    return ends.reshape(len(ends), ends.shape[1] // 2, 2)


def _group_table(table: Conformal, coverage: float) -> Conformal:
    """The table for tasks, without the width; refuse one without groups before a task is made."""
    check_coverage(coverage)
    table.codes([])
    return replace(table, width=None)


def _ends(table: Conformal, coverage: float, centers: Any, groups: Any) -> NDArray[np.float64]:
    """Ends (n, 2 k) of predictions and widths (n, 2 k)."""
    k = centers.shape[1] // 2
    half = centers[:, k:] * table.radii(coverage, k, groups)
    ends = centers[:, :k, None] + half[:, :, None] * np.array([-1.0, 1.0])
    return np.asarray(ends.reshape(len(centers), 2 * k))


def _sets(table: Conformal, coverage: float, by_class: bool, P: Any, groups: Any) -> NDArray[np.bool_]:
    return np.asarray(table.limits(coverage, P.shape[1], by_class, groups) >= 1.0 - P)


def collect_conformal(machine: Any, X: Any, y: Any, sample_weight: Any, groups: Any) -> Conformal:
    """The conformity scores of rows; the widths stay those of the fit."""
    model, k = machine.model_, len(machine.model_.intercept)
    classes = model.classes
    if classes is None:
        answers = machine._answer(X, center_block, "interval", "float64", 2 * k)
    else:
        answers = machine._answer(X, probability_block, "probability", "float64", len(classes))
    # Computed together: of a shuffled dataframe each alone might have another order of rows.
    answers, y, sample_weight, groups = compute_values((answers, y, sample_weight, groups), dask_compute)
    answers, groups = np.asarray(answers), None if groups is None else np.asarray(groups)
    y, weight = check_beside(unwrap(y), unwrap(sample_weight), len(answers), describe_row)
    weight = np.ones(len(answers)) if weight is None else weight
    if groups is not None:
        check_groups(len(answers), groups)
        if type_of_dtype(groups.dtype) == FLOAT and (groups % 1 != 0).any():
            raise DataError("groups is a list of text, whole numbers, dates or booleans, one for each row.")
    rows = np.flatnonzero(weight)
    if y is None or not len(rows):
        raise no_weight(len(answers))
    answers, y, weight, groups = answers[rows], y[rows], weight[rows], None if groups is None else groups[rows]
    if classes is not None:
        codes = Targets(classes).codes(y, lambda row: describe_row(int(rows[row])))
        return Conformal.of_classes(answers, codes, weight, groups)
    if y.dtype.kind == "U":
        raise DataError(f"y holds text such as {y[0].item()!r}, and the model predicts numbers.")
    if y[:1].size != k:
        raise DataError(f"y has {y[:1].size} column(s) and the model predicts {k} target(s).")
    width = None if model.conformal is None else model.conformal.width
    ratios = absolute_errors(answers[:, :k], y) / answers[:, k:]
    return replace(Conformal.of_numbers(ratios, weight, groups), width=width)
