"""The model of an estimator, its refusals, and the components of polynomials."""

from collections.abc import Iterator
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.errors import ModelFileError, UnsupportedError
from dkernel.features.monomials import MonomialMap
from dkernel.model.model import Model


def exportable_model(model: Any) -> Model:
    """The model of numbers or of a table that is meant: itself, or that of a fitted estimator."""
    model = getattr(model, "model_", model)
    if not isinstance(model, Model):
        raise ModelFileError(
            f"A {type(model).__name__} cannot be exported. Pass a dkernel Model (dkernel.load) or "
            "a fitted KernelClassifier, KernelRegressor, KernelKMeans, OneClassSVM or Tuner."
        )
    if model.objects:
        raise UnsupportedError(
            f"The columns {', '.join(map(repr, model.objects))} of this model hold texts, lists or sets, and their "
            "kernels exist in dkernel alone. Score with dkernel, or train on columns of numbers."
        )
    return model


def no_counterpart(what: Any, which: str) -> UnsupportedError:
    """The refusal of a kernel or map that has no counterpart."""
    return UnsupportedError(
        f"{what} has no counterpart in the operators of ONNX. {which} Score with dkernel, or train with one of these."
    )


def monomials(map: MonomialMap) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.float64]]]:
    """Degree, the columns (monomials, degree) whose product each monomial is, and its weight; in the map's order."""
    weights = map.components(np.ones((1, map.n_in)))[0]  # every monomial of a row of ones is 1
    at = 0
    for degree, a in enumerate(map.series[: None if map.most is None else map.most + 1]):
        if a > 0:
            terms = list(combinations_with_replacement(range(map.n_in), degree))
            yield degree, np.array(terms, np.int64).reshape(len(terms), degree), weights[at : at + len(terms)]
            at += len(terms)
