"""OneClassSVM: detection of outliers, for data of any size."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import OutlierMixin

from dkernel.estimators.coefficients import LinearCoefficients
from dkernel.estimators.errors import require_fitted
from dkernel.estimators.parameters import KernelLike, Seed
from dkernel.estimators.prediction import BlockPrediction, Inputs, apply_prediction
from dkernel.estimators.validation import check_table
from dkernel.leaves.transforms.embedding import Embedding, linear_model
from dkernel.leaves.transforms.feature_moments import OneClass, Phi
from dkernel.leaves.transforms.one_class_loss import OneClassNewton, begin, sum_losses, widths
from dkernel.model.model import Model
from dkernel.model.model_file import compute_digest
from dkernel.numerics.threads import one_blas_thread
from dkernel.streaming.block_reader import read_once
from dkernel.streaming.execution.connect import default_executor


class OneClassSVM(OutlierMixin, LinearCoefficients, Embedding):
    """One-class support vector machine: the region where most rows are, by a plane in the space of φ.

    minimize over w, ρ:  1/2 |w|² - ρ + 1/(ν n) sum of max(0, ρ - w . φ(x_i))

    A row is an inlier where s(x) = w . φ(x) - ρ is not negative; at most a share ν of the training rows is outside. A
    solution on up to 20,000 rows drawn by hash is the start of Newton's method over all of them, some ten readings,
    with the corner of the loss rounded by a thousandth of the spread of the scores. With Nystrom features and all rows
    as landmarks it is `sklearn.svm.OneClassSVM`, whose decision function is ν n times this one.

    Parameters
    ----------
    nu : float, default=0.5
        Bound of the share of outliers, above 0 and at most 1.
    kernel and gamma : the kernel and its number. Kernel, its expression, or its name; X is used as it is, never scaled.
    features : kind of the map, "auto" by default.
    n_components : int, default=1024
        Number of landmarks, or of random features.
    max_iter : int, default=50
        Most readings of the data.
    random_state : the seed; None is 0.

    Attributes
    ----------
    model_ : Model
        For `dkernel.save` and `dkernel score`, with the classes -1 and 1.
    coef_ : ndarray of shape (1, p)
        Coefficients of the columns of X, float64, of a linear kernel; others have none.
    component_coef_ : ndarray of shape (1, n_components_)
        Coefficients of the components of the map, float64: w of φ(x) = k(x, landmarks) @ whitening_ is in them.
    intercept_ : ndarray of shape (1,)
        -ρ: of X @ coef_.T where coef_ is there, else of the components.
    offset_ : float
        Offset ρ.
    outliers_ : float
        Share of the training rows outside.
    n_iter_ : int
        Readings after the map was made.
    kernel_, map_ and n_components_ : the kernel with numbers, the map and its components.

    See Also
    --------
    KernelClassifier : Machine of two classes and more.

    References
    ----------
    B. Schölkopf, J. Platt, J. Shawe-Taylor, A. Smola and R. Williamson, "Estimating the support of a high-dimensional
    distribution", Neural Computation 2001.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> machine = OneClassSVM(0.1, gamma=0.5, n_components=128).fit(X)
    >>> machine.predict([[0.0, 0.0], [5.0, 5.0]]).tolist(), round(machine.outliers_, 2)
    ([1, -1], 0.09)
    """

    def __init__(
        self,
        nu: float = 0.5,
        *,
        kernel: KernelLike = "gaussian",
        gamma: str | float = "auto",
        features: str = "auto",
        n_components: int = 1024,
        max_iter: int = 50,
        random_state: Seed = None,
    ) -> None:
        self._set_parameters(locals())

    def _learn(self, X: Any) -> None:
        nu = self.nu
        source, phi, seed = self._embed(X)
        phi = self._drop_lost_directions(phi)
        with default_executor() as executor:
            rows = self._sample(source, seed, executor)
            phi = self._center(phi, rows, source)
            v, last = self._start(phi, rows)
            path = OneClassNewton(v, last, float(nu))
            statistic, key = OneClass(phi), f"{self._key(source)}-{nu!r}-{seed}"
            below, self.n_iter_ = 0, 0
            while not path.over and self.n_iter_ < self.max_iter:
                sums = read_once(
                    source,
                    statistic,
                    executor,
                    f"{key}-{self.n_iter_}",
                    large=True,
                    broadcast=(path.points, path.width),
                )
                self.n_iter_ += 1
                with one_blas_thread():
                    below = sums.below if path.update(sums) else below
        w, self.offset_ = path.v[:-1, None], float(path.v[-1])
        self.outliers_ = below / source.n_rows
        facts = {"nu": float(nu), "offset": self.offset_, "outliers": self.outliers_}
        self.model_ = linear_model(
            self, source, w, np.array([-self.offset_]), np.array([-1, 1]), facts, alpha=float(nu)
        )

    def _drop_lost_directions(self, phi: Phi) -> Phi:
        """Drop the directions of φ that float32 columns cannot resolve: the model's are float32."""
        if self.whitening_ is None:
            return phi
        eigenvalues = 1.0 / np.square(self.whitening_).sum(axis=0)
        # Under 1e-6 of the largest eigenvalue of the landmarks float32 columns are rounding.
        self.whitening_ = np.ascontiguousarray(self.whitening_[:, eigenvalues > 1e-6 * eigenvalues.max()])
        self.n_components_ = self.whitening_.shape[1]
        return Phi(phi.function, (*phi.carried[:-1], self.whitening_))

    def _start(self, phi: Phi, rows: NDArray[Any]) -> tuple[NDArray[np.float64], list[float]]:
        """Solve on a sample; the last of the widths is left for all rows."""
        with one_blas_thread():
            F = np.concatenate(list(phi.strips(rows)))
            v, first = begin(F, float(self.nu))
            zones = widths(first)
            path = OneClassNewton(v, zones, float(self.nu))
            while not path.over:
                path.update(sum_losses(F, path.points, path.width))
        return path.v, zones[-1:]

    def decision_function(self, X: Any) -> Any:
        """Compute s(x) = w . φ(x) - ρ, which is not negative for inliers.

        Gives (n_samples,) for rows X: Scores, float64.
        """
        return self._answer(X, decide, "score", "float64")

    def score_samples(self, X: Any) -> Any:
        """Compute w . φ(x), the decision function and `offset_`.

        Gives (n_samples,) for rows X: Scores, float64.
        """
        return self.decision_function(X) + self.offset_

    def predict(self, X: Any) -> Any:
        """Tell inliers from outliers.

        Gives (n_samples,) for rows X: 1 for inliers, -1 for outliers, int64.
        """
        return self._answer(X, Model.predict, "label", np.int64)

    def _answer(self, X: Any, function: Any, word: str, dtype: Any) -> Any:
        require_fitted(self, "model_")
        model: Model = self.model_
        X = check_table(self, X, objects=bool(model.objects))
        key, names, inputs = f"model-{compute_digest(model)}", [word], Inputs.of(model)
        return apply_prediction(BlockPrediction(function, model, lambda: key, inputs, lambda: names, dtype), X)


def decide(model: Model, X: NDArray[Any]) -> NDArray[np.float64]:
    """Scores of a block."""
    return model.scores(X)[:, 0].astype(np.float64)
