"""A model as a scikit-learn Pipeline of public classes, whose attributes are set instead of fitted."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.decomposition import PCA
from sklearn.gaussian_process import kernels as gp
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.linear_model import LinearRegression, LogisticRegression, SGDClassifier
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import MaxAbsScaler, PolynomialFeatures, StandardScaler

from dkernel import kernels as ours
from dkernel.errors import UnsupportedError
from dkernel.export.encoding_steps import encoder_of, units_of
from dkernel.export.exact import model_of, monomials, refusal_of
from dkernel.features import FeatureMap, FourierMap, NystromMap, Scaling
from dkernel.features.column_subset import SelectedMap
from dkernel.features.concatenation import StackedMap
from dkernel.features.monomials import MonomialMap
from dkernel.kernels.algebra import Product, Scaled, Sum
from dkernel.linear.losses import LOSSES, Hinge, parse_loss
from dkernel.local.cell_machine import CellMachine
from dkernel.model import Model

_PIPELINE_MAPS = (
    "Nystrom features can be exported with Gaussian, Laplacian, Exponential, Matern, RationalQuadratic, Cauchy, Linear "
    "and Polynomial kernels, their sums, products and multiples; random features with Fourier and exact maps."
)

Coef = NDArray[np.float64]  # (n_components, C)


def to_sklearn(model: Any) -> Pipeline:
    """Export a model as a fitted scikit-learn Pipeline that predicts the same without dkernel or Dask.

    The steps are: for tables with categories, dates or missing values a ColumnTransformer, which takes a data frame
    with the columns of the training; StandardScaler; for a learned metric PCA, which is a linear map; RBFSampler,
    Nystroem, PolynomialFeatures or a FeatureUnion of them; SGDClassifier or LinearRegression. Scores are computed in
    float64. dkernel rounds components to float32 unless `Model.is_wide`, so they agree to some 1e-5 of the largest
    score, of a model of many rows to 1e-3, and labels agree where the score is farther than that from a tie.
    `normalization_` of Nystroem holds the coefficients, so its outputs are the scores without the intercept: a row
    costs one value of the kernel per landmark, and no whitening.

    Parameters
    ----------
    model : Model, KernelClassifier or KernelRegressor
        Model, as `dkernel.load` gives it, or a fitted estimator.

    Returns
    -------
    sklearn.pipeline.Pipeline
        Pipeline with `predict`, and of a classifier `decision_function` and (loss="logistic") `predict_proba`; of a
        calibrated one without `predict_proba`.

    Raises
    ------
    UnsupportedError
        If scikit-learn does not have the kernel or map (the message lists those that it has), or the local stage:
        grids, and several cells; and if numbers or dates of many values share inputs by a hash.

    See Also
    --------
    to_onnx : Export as an ONNX graph.
    save : Write the model file.

    Examples
    --------
    >>> from dkernel import KernelClassifier
    >>> X = np.random.default_rng(0).normal(size=(400, 2))
    >>> machine = KernelClassifier(gamma=0.5, n_components=64).fit(X, (X**2).sum(axis=1) < 1.4)
    >>> [name for name, _ in to_sklearn(machine).steps]
    ['scale', 'features', 'linear']
    >>> bool((to_sklearn(machine).predict(X) == machine.predict(X)).all())
    True
    """
    model = model_of(model)
    steps: list[tuple[str, Any]] = []
    if model.encoding is not None:
        steps.append(("encode", encoder_of(model.encoding)))
    features, coef = _features(model.map, model.coef)
    own: list[tuple[str, Any]] = [("scale", _scaler_of_sparse(model) if model.map.sparse else _scaler(model))]
    if model.scaling.rotation is not None:
        own.append(("metric", _linear_map(model.scaling.rotation)))
    own += [("features", features)] if features is not None else []
    if model.local is None:
        return Pipeline([*steps, *own, ("linear", _last(model, coef))])
    both = FeatureUnion([("components", Pipeline(own)), ("cell", _cell(model))])
    return Pipeline([*steps, ("features", both), ("linear", _last(model, np.vstack([coef, np.eye(coef.shape[1])])))])


def _cell(model: Model) -> Pipeline:
    """The scores of cells that are one: a kernel at its rows."""
    machine = model.local
    if not isinstance(machine, CellMachine):
        raise UnsupportedError(
            "scikit-learn has no grids, the bins of whose hash would be tables: this model has a local stage of them. "
            "Export it as ONNX, or train with local='none'."
        )
    if machine.tree.n_cells > 1:
        raise UnsupportedError(
            f"scikit-learn has no cuts across features: this model has a local stage of {machine.tree.n_cells:,} "
            "cells, and one cell alone can be exported. Export it as ONNX, or train with local='none'."
        )
    (cell,) = machine.cells
    center, factor = machine.inputs.center, machine.inputs.factor
    scaled = _standard(model, center, np.where(factor > 0, factor, 1.0))
    root = cell.root.astype(np.float64) * (factor > 0)[:, None]  # a feature of one value does not count
    near = _nystrom(NystromMap(ours.Matern(nu=cell.nu, length=cell.length), cell.Z), cell.coef * machine.unit)
    return Pipeline([("scale", scaled), ("metric", _linear_map(root)), ("features", near)])


def _scaler(model: Model) -> StandardScaler:
    scaling: Scaling = model.scaling.in_dtype(model.recipe.dtype)
    return _standard(model, scaling.shift, scaling.factor)


def _standard(model: Model, shift: NDArray[np.floating], factor: NDArray[np.floating]) -> StandardScaler:
    """x -> (x - shift) factor, of the inputs of a model."""
    scaler = StandardScaler()
    scaler.mean_, scaler.n_features_in_ = shift.astype(np.float64), len(shift)
    scaler.scale_ = 1.0 / factor.astype(np.float64)
    if model.encoding is not None:
        units = units_of(model.encoding)
        scaler.mean_, scaler.scale_ = scaler.mean_ / units, scaler.scale_ / units
    scaler.var_ = scaler.scale_**2
    if model.encoding is None and model.columns != tuple(map(str, range(len(model.columns)))):
        scaler.feature_names_in_ = np.array(model.columns, dtype=object)
    return scaler


def _scaler_of_sparse(model: Model) -> MaxAbsScaler:
    """x -> x factor, of scipy's sparse matrices too."""
    p = len(model.columns)
    scaler = MaxAbsScaler()
    scaler.scale_ = np.broadcast_to(1.0 / model.scaling.factor, p).copy()
    scaler.max_abs_, scaler.n_features_in_, scaler.n_samples_seen_ = scaler.scale_, p, 1
    return scaler


def _linear_map(R: NDArray[np.float64]) -> PCA:
    """x -> x R."""
    pca = PCA(n_components=R.shape[1])
    pca.components_, pca.mean_ = np.ascontiguousarray(R.T), np.zeros(len(R))
    pca.n_components_, pca.n_features_in_ = R.shape[1], len(R)
    pca.explained_variance_ = np.ones(R.shape[1])
    return pca


def _features(map: FeatureMap, coef: Coef) -> tuple[BaseEstimator | None, Coef]:
    """A transformer, None for rows as they are, and the coefficients of its columns."""
    if isinstance(map, FourierMap):
        return _fourier(map, coef)
    if isinstance(map, NystromMap):
        return _nystrom(map, coef), np.eye(coef.shape[1])
    if isinstance(map, MonomialMap):
        return _polynomial(map, coef)
    if isinstance(map, SelectedMap):
        chosen = np.zeros((map.n_in, len(map.places)))
        chosen[map.places, np.arange(len(map.places))] = 1.0
        inner, coef = _features(map.inner, coef)
        select = _linear_map(chosen)
        return (select if inner is None else Pipeline([("columns", select), ("features", inner)])), coef
    if isinstance(map, StackedMap):
        return _stack(map, coef)
    raise refusal_of(f"The {map.kind} map of {map.kernel!r}", "scikit-learn", _PIPELINE_MAPS)


def _fourier(map: FourierMap, coef: Coef) -> tuple[RBFSampler, Coef]:
    """Sines are cosines a quarter turn later, so one sampler makes pairs as well."""
    if map.sparse:
        raise refusal_of(
            f"The Fourier map of {map.n_in:,} columns, never made as a matrix,", "scikit-learn", _PIPELINE_MAPS
        )
    m = len(map.frequencies)
    weights, offsets = np.empty((map.n_in, map.n_components)), np.empty(map.n_components)
    if map.offsets is not None:
        weights[:], offsets[:] = map.frequencies.T, map.offsets
    else:
        for first, _, width in map.groups:
            part = map.frequencies[first // 2 : first // 2 + width].T
            for at, offset in ((first, 0.0), (first + width, -np.pi / 2)):
                weights[:, at : at + width], offsets[at : at + width] = part, offset
    sampler = RBFSampler(n_components=map.n_components)
    sampler.random_weights_, sampler.random_offset_, sampler.n_features_in_ = weights, offsets, map.n_in
    sampler._n_features_out = 2 * m if map.pairs else m
    return sampler, coef / np.sqrt(2.0 / map.n_components)


def _nystrom(map: NystromMap, coef: Coef) -> Nystroem:
    kernel = map.kernel
    if isinstance(kernel, ours.Gaussian) and not isinstance(kernel.gamma, tuple):
        nystroem = Nystroem("rbf", gamma=float(kernel.gamma), n_components=map.n_components)
    elif isinstance(kernel, ours.Laplacian):
        nystroem = Nystroem("laplacian", gamma=float(kernel.gamma), n_components=map.n_components)
    else:
        of_kernel = _nystroem_of_sparse(kernel) if map.sparse else Nystroem(_gp_kernel(kernel))
        nystroem = of_kernel.set_params(n_components=map.n_components)
    landmarks = map.landmarks.astype(np.float64)
    nystroem.components_ = sp.csr_matrix(landmarks.tocsr()) if map.sparse else landmarks
    nystroem.component_indices_ = np.arange(map.n_components)
    nystroem.normalization_, nystroem.n_features_in_ = np.ascontiguousarray(coef.T), map.n_in
    nystroem._n_features_out = coef.shape[1]
    return nystroem


def _nystroem_of_sparse(kernel: ours.Kernel) -> Nystroem:
    if isinstance(kernel, ours.Polynomial):
        return Nystroem("poly", gamma=1.0, degree=kernel.degree, coef0=kernel.c)
    if isinstance(kernel, ours.Linear):
        return Nystroem("linear")
    raise refusal_of(f"{kernel!r} of sparse rows", "scikit-learn", "Gaussian, Polynomial and Linear have one.")


def _gp_kernel(kernel: ours.Kernel) -> gp.Kernel:
    """Make the kernel of sklearn.gaussian_process that equals this one."""
    if isinstance(kernel, Sum | Product):
        first, *others = [_gp_kernel(member) for member in kernel.members]
        for other in others:
            first = gp.Sum(first, other) if isinstance(kernel, Sum) else gp.Product(first, other)
        return first
    if isinstance(kernel, Scaled):
        return gp.Product(gp.ConstantKernel(kernel.weight), _gp_kernel(kernel.kernel))
    if isinstance(kernel, ours.Gaussian):
        return gp.RBF(np.sqrt(0.5 / np.array(kernel.gamma, np.float64)))
    if isinstance(kernel, ours.Laplacian):
        return gp.PairwiseKernel(float(kernel.gamma), metric="laplacian")
    if isinstance(kernel, ours.Exponential):
        return gp.Matern(kernel.length, nu=0.5)
    if isinstance(kernel, ours.Matern):
        return gp.Matern(kernel.length, nu=kernel.nu)
    if isinstance(kernel, ours.RationalQuadratic):
        return gp.RationalQuadratic(kernel.length, alpha=kernel.alpha)
    if isinstance(kernel, ours.Cauchy):
        return gp.RationalQuadratic(float(kernel.length) / np.sqrt(2.0), alpha=1.0)
    if isinstance(kernel, ours.Linear) and kernel.A is None:
        return gp.DotProduct(0.0)
    if isinstance(kernel, ours.Polynomial):
        return gp.Exponentiation(gp.DotProduct(np.sqrt(kernel.c)), kernel.degree)
    raise refusal_of(repr(kernel), "scikit-learn", _PIPELINE_MAPS)


def _polynomial(map: MonomialMap, coef: Coef) -> tuple[PolynomialFeatures | None, Coef]:
    weights_of = {degree: weights for degree, _, weights in monomials(map)}
    widths = {degree: len(weights) for degree, weights in weights_of.items()}
    if set(weights_of) == {1}:
        return None, coef * weights_of[1][:, None]
    expand = PolynomialFeatures(degree=max(weights_of)).fit(np.zeros((1, map.n_in)))
    degrees = expand.powers_.sum(axis=1)
    out, at = np.zeros((len(degrees), coef.shape[1])), 0
    for degree, width in widths.items():
        out[degrees == degree] = coef[at : at + width] * weights_of[degree][:, None]
        at += width
    return expand, out


def _stack(map: StackedMap, coef: Coef) -> tuple[FeatureUnion, Coef]:
    parts, coefs, at = [], [], 0
    for i, (part, weight) in enumerate(zip(map.maps, map.weights, strict=True)):
        factor = weight**0.5 * float(part.whitening)
        inner, own = _features(part, coef[at : at + part.n_components] * factor)
        parts.append((f"part{i}", "passthrough" if inner is None else inner))
        coefs.append(own)
        at += part.n_components
    return FeatureUnion(parts), np.concatenate(coefs)


def _last(model: Model, coef: Coef) -> BaseEstimator:
    if model.classes is None:
        last = LinearRegression()
        if len(model.intercept) > 1:
            last.coef_, last.intercept_ = np.ascontiguousarray(coef.T), model.intercept.copy()
        else:
            last.coef_, last.intercept_ = np.ascontiguousarray(coef[:, 0]), float(model.intercept[0])
    else:
        # CalibratedClassifierCV predicts the likeliest classes, and not those of the scores: a calibration
        # stays behind, and what it calibrates claims no probabilities.
        loss = Hinge() if model.calibration is not None and model.loss.probable else parse_loss(model.recipe.loss)
        if not loss.sklearn_name:
            known = [name for name, other in LOSSES.items() if other.sklearn_name]
            others = f"Losses that can be exported: {', '.join(known)}."
            raise refusal_of(f"loss={model.recipe.loss!r}", "scikit-learn", others)
        several = loss.joint and len(model.intercept) > 1
        last = LogisticRegression() if several else SGDClassifier(loss=loss.sklearn_name)
        last.coef_, last.intercept_ = np.ascontiguousarray(coef.T), model.intercept.copy()
        last.classes_ = model.classes
    last.n_features_in_ = len(coef)
    return last
