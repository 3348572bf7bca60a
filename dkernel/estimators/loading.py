"""`load`: a model file as the estimator that was saved."""

import inspect
import os
from typing import Any

import numpy as np

from dkernel.estimators.base import KernelMachine
from dkernel.estimators.classifier import KernelClassifier
from dkernel.estimators.one_class import OneClassSVM
from dkernel.estimators.regressor import KernelRegressor
from dkernel.model import Model
from dkernel.persistence import model_file
from dkernel.recipe import GIVEN

__all__ = ["estimator_of", "load"]


def load(path: str | os.PathLike[str]) -> Any:
    """Read a model file as a fitted estimator.

    Parameters
    ----------
    path : str or path
        The file that `dkernel train`, `dkernel tune` or `dkernel.save` wrote. Nothing in it is run.

    Returns
    -------
    KernelClassifier, KernelRegressor or OneClassSVM
        Predicts data frames, lists, arrays and Dask collections as the estimator that was saved. Its `model_` is the
        `Model` itself. There is no `partial_fit`: a file holds no state of a solver.

    Raises
    ------
    ModelFileError
        if the file is no model, or a damaged one

    See Also
    --------
    dkernel.save
    """
    return estimator_of(model_file.load(path))


def estimator_of(model: Model) -> Any:
    """The fitted estimator that a model is of."""
    if model.classes is not None and "nu" in model.facts:
        one: Any = OneClassSVM(model.facts["nu"], kernel=model.recipe.kernel, random_state=model.recipe.seed)
        one.offset_, one.outliers_ = model.facts["offset"], model.facts["outliers"]
        one.coef_ = model.coef[:, 0]
        return _known(one, model)
    kind = KernelRegressor if model.classes is None else KernelClassifier
    machine = kind(**_parameters(kind, model))
    machine.history_, machine.chosen_ = [], dict(model.facts.get("chosen", {}))
    machine.n_components_ = model.map.n_columns
    _known(machine, model)
    machine._learned()
    return machine


def _parameters(kind: type[KernelMachine], model: Model) -> dict[str, Any]:
    """What the estimator would have been given: the recipe's words for what it knows of."""
    recipe = model.recipe
    names = set(inspect.signature(kind).parameters)
    found = {name: value for name, value in vars(recipe).items() if name in names}
    categorical = recipe.categorical
    found["categorical_features"] = {"auto": "from_dtype", "none": None}.get(categorical, categorical)  # type: ignore[arg-type]
    found["random_state"] = recipe.seed
    return {**found, "landmarks": "uniform"} if recipe.landmarks == GIVEN else found


def _known(machine: Any, model: Model) -> Any:
    machine.model_, machine.n_features_in_ = model, len(model.columns)
    numbered = model.map.sparse or all(name == str(j) for j, name in enumerate(model.columns))
    if not numbered:
        machine.feature_names_in_ = np.array(model.columns, dtype=object)
    return machine
