"""`load`: a model file as the estimator that was saved."""

import inspect
import os
from typing import Any

import numpy as np

from dkernel.estimators.base import KernelMachine
from dkernel.estimators.classifier import KernelClassifier
from dkernel.estimators.regressor import KernelRegressor
from dkernel.leaf_table import load_leaf
from dkernel.model import model_file
from dkernel.model.local_settings import parse_settings
from dkernel.model.model import Model
from dkernel.model.recipe import GIVEN


def load(path: str | os.PathLike[str]) -> Any:
    """Load a model file as the fitted estimator that was saved.

    Parameters
    ----------
    path : str or path-like
        File that `dkernel train`, `dkernel tune` or `dkernel.save` wrote. Nothing in it is run.

    Returns
    -------
    KernelClassifier, KernelRegressor or OneClassSVM
        Estimator that predicts data frames, lists, arrays and Dask collections as the saved one; its `model_` is the
        Model itself.

    Raises
    ------
    ModelFileError
        If the file is missing, damaged or of a newer dkernel: every byte is checked.

    See Also
    --------
    save : Write a model file.

    Examples
    --------
    >>> import tempfile
    >>> from dkernel import KernelRegressor, save
    >>> machine = KernelRegressor(gamma=1.0, n_components=8).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = save(machine, f"{folder}/model.safetensors")
    ...     load(f"{folder}/model.safetensors").predict([[1.0]]).round(1)
    array([1.])
    """
    model = model_file.load_model(path)
    if model.classes is not None and "nu" in model.facts:
        machine_of = load_leaf("transforms", "one_class", f"{os.fspath(path)}, the model of one class").OneClassSVM
        one = machine_of(model.facts["nu"], kernel=model.recipe.kernel, random_state=model.recipe.seed)
        one.offset_, one.outliers_ = model.facts["offset"], model.facts["outliers"]
        return _set_columns(one, model)
    kind = KernelRegressor if model.classes is None else KernelClassifier
    machine = kind(**_parameters(kind, model))
    _set_columns(machine, model)
    machine._take(model, [], model.facts.get("chosen", {}))
    return machine


def _parameters(kind: type[KernelMachine], model: Model) -> dict[str, Any]:
    recipe = model.recipe
    names = set(inspect.signature(kind).parameters)
    parameters = {name: value for name, value in vars(recipe).items() if name in names}
    categorical = recipe.categorical
    parameters["categorical_features"] = {"auto": "from_dtype", "none": None}.get(categorical, categorical)  # type: ignore[arg-type]
    parameters["random_state"] = recipe.seed
    parameters["local"] = parse_settings(recipe.local) if "(" in recipe.local else recipe.local
    return {**parameters, "landmarks": "uniform"} if recipe.landmarks == GIVEN else parameters


def _set_columns(machine: Any, model: Model) -> Any:
    machine.model_, machine.n_features_in_ = model, len(model.columns)
    numbered = model.map.sparse or all(name == str(j) for j, name in enumerate(model.columns))
    if not numbered:
        machine.feature_names_in_ = np.array(model.columns, dtype=object)
    return machine
