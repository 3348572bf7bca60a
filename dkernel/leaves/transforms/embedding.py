"""Base classes of the estimators that learn a linear method on φ of the rows."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dkernel.data.source import Source
from dkernel.estimators.prediction import content_key
from dkernel.estimators.validation import draw_seed, make_source
from dkernel.features import FeatureMap, Scaling
from dkernel.features.nystrom import NystromMap
from dkernel.leaves.transforms.base import MapTransformer, Unsupervised, choose_dtype, random_rows
from dkernel.leaves.transforms.feature_moments import Phi
from dkernel.leaves.transforms.kernel_features import KernelFeatures
from dkernel.leaves.transforms.kernel_maps import nystrom_rows
from dkernel.model.model import Model
from dkernel.model.recipe import Recipe, SettledRecipe
from dkernel.numerics.rows import result_dtype, wide
from dkernel.solvers.finite_check import check_products
from dkernel.streaming.execution.base import Executor
from dkernel.streaming.execution.versions import versions
from dkernel.training.selection.landmark_selection import sample_rows

CLUSTER_SAMPLE = 20_000  # rows on which clusters begin


class Embedding(Unsupervised):
    """Base class of estimators on φ of the rows, which subclasses fit in one or more readings."""

    map_size: ClassVar[str] = "n_components"
    """Name of the parameter that holds the number of components of the map."""
    map_: FeatureMap
    _shift: NDArray[np.float64]

    def _embed(self, X: Any) -> tuple[Source, Phi, int]:
        """The map, fitted and copied to this estimator; the rows to learn from; and the seed."""
        seed = draw_seed(self.random_state)
        made = KernelFeatures(
            self.kernel,
            gamma=self.gamma,
            features=self.features,
            n_components=getattr(self, self.map_size),
            random_state=seed,
        ).fit(X)
        source = make_source(self, X, dtype=choose_dtype(X), sparse=made.map_.sparse)
        self.kernel_, self.map_ = made.kernel_, made.map_
        setattr(self, f"{self.map_size}_", made.n_components_)
        self._shift = np.zeros(1 if self.map_.sparse else source.n_in)
        inner = made.nystrom_
        self.whitening_ = None if inner is None else inner.whitening_
        if inner is None:
            return source, Phi(random_rows, made.map_), seed
        return source, Phi(nystrom_rows, (inner.kernel_, wide(inner.landmarks_), inner.whitening_)), seed

    def _sample(self, source: Source, seed: int, executor: Executor) -> NDArray[Any]:
        """Draw up to CLUSTER_SAMPLE rows by hash."""
        recipe = Recipe(kernel=repr(self.kernel_), features="nystrom", n_components=1, seed=seed)
        return sample_rows(source, recipe, min(source.n_rows, CLUSTER_SAMPLE), executor)[1]

    def _center(self, phi: Phi, rows: NDArray[Any], source: Source) -> Phi:
        """φ of the rows less the offsets of columns that are far from 0, where the kernel sees no shift.

        The map of a model holds float32, in which such offsets leave nothing of the rows. Products of such columns are
        refused.
        """
        check_products(self.kernel_, rows, source.columns)
        if rows.dtype != np.float64 or not self.kernel_.shift_invariant:
            return phi
        moments = rows.mean(axis=0), rows.var(axis=0), rows.min(axis=0), rows.max(axis=0)
        shift = Scaling.of("none", *moments, free=True, rounding=1e-14).shift
        if not shift.any():
            return phi
        self._shift = shift
        if self.whitening_ is not None:
            assert isinstance(self.map_, NystromMap)
            self.map_ = NystromMap(self.kernel_, self.map_.landmarks - shift)
            phi = Phi(nystrom_rows, (self.kernel_, wide(self.map_.landmarks), self.whitening_))
        return Phi(shift_rows, (shift, phi))

    def _key(self, source: Source) -> str:
        key = content_key(f"{source.token}{self.map_.spec()!r}", self._shift, *self.map_.arrays().values())
        return f"dkernel-{type(self).__name__}-{key[:16]}"


class OnFeatures(Embedding, MapTransformer):
    """Base class of embeddings that transform every row to numbers."""

    map_: Any


def linear_model(
    machine: Embedding,
    source: Source,
    weights: NDArray[np.float64],
    offsets: NDArray[np.float64],
    classes: NDArray[np.int64],
    facts: dict[str, Any],
    alpha: float = 0.0,
) -> Model:
    """Make the Model of a machine whose answers are signs or maxima of φ(x) . weights + offsets."""
    T = machine.map_.whitening if machine.whitening_ is None else machine.whitening_
    coef = weights * T if isinstance(T, float) else T @ weights
    features = "nystrom" if machine.whitening_ is not None else "random"
    recipe = Recipe(
        task="classify",
        kernel=repr(machine.kernel_),
        features=features,
        n_components=machine.map_.n_components,
        loss="hinge",
        alpha=alpha,
        solver="psgd",
        scale="none",
        metric="identity",
        holdout=0.0,
        calibration="none",
        seed=draw_seed(machine.random_state),
        dtype="float64" if source.dtype == "object" else source.dtype,
    )
    scaling = Scaling("none", machine._shift, np.ones(len(machine._shift)))
    facts = {"rows": source.n_rows, "components": machine.map_.n_components, **facts, "versions": versions()}
    return Model(
        recipe=SettledRecipe(recipe),
        scaling=scaling,
        map=machine.map_,
        coef=np.ascontiguousarray(coef, dtype=np.float64),
        intercept=offsets,
        classes=classes,
        columns=source.columns,
        label="label",
        facts=facts,
    )


def shift_rows(carried: tuple[NDArray[np.float64], Phi], X: NDArray[Any]) -> NDArray[np.floating]:
    """φ of a block less the offsets of its columns."""
    shift, phi = carried
    return phi.function(phi.carried, X - shift)


def join_rows(parts: Any, X: NDArray[Any], width: int) -> NDArray[np.floating]:
    """The parts of the answers of a block as one array, in the type of its rows."""
    out = np.empty((len(X), width), result_dtype(X))
    at = 0
    for part in parts:
        out[at : at + len(part)] = part
        at += len(part)
    return out
