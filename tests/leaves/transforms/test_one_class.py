"""OneClassSVM against libsvm's, SGDOneClassSVM's objective, and from chunks; its model in a file."""

import dask.array as da
import numpy as np
import pytest
import sklearn.svm
from sklearn.linear_model import SGDOneClassSVM

import dkernel
from dkernel import OneClassSVM
from dkernel.data.collections.arrays import from_arrays
from dkernel.errors import RecipeError
from dkernel.leaves.transforms.one_class_loss import OneClassNewton, begin, sum_losses, values, widths


def crowd(n, seed=0):
    """Two clusters, and a tenth of rows all over the place."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)) * 0.5 + np.where(rng.random((n, 1)) < 0.5, 2.0, -1.0)
    far = rng.random(n) < 0.1
    X[far] = rng.uniform(-5, 5, (far.sum(), 2))
    return X, far


def phi(machine, X):
    return machine.kernel_(X, machine.map_.landmarks) @ machine.whitening_


def weights(machine):
    """w of φ, of which the coefficients of the components are whitening_ @ w."""
    return np.linalg.lstsq(machine.whitening_, machine.component_coef_[0])[0]


@pytest.mark.parametrize("nu", [0.02, 0.1, 0.5, 0.99])
def test_all_rows_as_landmarks_give_libsvms(nu):
    X, _ = crowd(600)
    machine = OneClassSVM(nu, gamma=0.3, n_components=600).fit(X)
    twin = sklearn.svm.OneClassSVM(gamma=0.3, nu=nu, tol=1e-7).fit(X)
    new = np.concatenate([X, crowd(400, seed=1)[0]])
    wanted = twin.decision_function(new) / (nu * len(X))
    found = machine.decision_function(new)
    np.testing.assert_allclose(found, wanted, atol=4e-3 * machine.offset_)
    sure = np.abs(wanted) > 4e-3 * machine.offset_
    np.testing.assert_array_equal(machine.predict(new)[sure], twin.predict(new)[sure])
    assert sure.mean() > 0.5  # the support vectors of libsvm lie on the plane itself
    assert machine.outliers_ <= nu + 0.01
    np.testing.assert_allclose(machine.score_samples(new) - machine.offset_, found, atol=1e-6)


def test_its_objective_is_below_that_of_sgd_on_equal_features():
    X, _ = crowd(2000)
    machine = OneClassSVM(0.1, gamma=0.3, n_components=64, random_state=0).fit(X)
    F = phi(machine, X)
    twin = SGDOneClassSVM(nu=0.1, max_iter=2000, tol=1e-6, random_state=0).fit(F)

    def objective(w, rho):
        return 0.05 * w @ w - 0.1 * rho + np.maximum(0, rho - F @ w).mean()

    mine, theirs = objective(weights(machine), machine.offset_), objective(twin.coef_, twin.offset_[0])
    assert mine <= theirs + 1e-9
    assert abs(theirs - mine) < 0.05 * abs(mine)
    assert (machine.predict(X) == twin.predict(F)).mean() > 0.95


def test_a_source_larger_than_the_sample_reaches_the_full_optimum(monkeypatch):
    monkeypatch.setattr("dkernel.leaves.transforms.embedding.CLUSTER_SAMPLE", 500)
    X, far = crowd(6000)
    machine = OneClassSVM(0.1, gamma=0.3, n_components=64, random_state=0).fit(X)
    F = phi(machine, X)
    v, first = begin(F, 0.1)
    path = OneClassNewton(v, widths(first), 0.1)
    while not path.over:
        path.update(sum_losses(F, path.points, path.width))
    h = widths(first)[-1]
    mine = np.append(weights(machine), machine.offset_)
    both = np.stack([path.v, mine], axis=1)
    best, found = values(sum_losses(F, both, h), both, 0.1)
    assert found == pytest.approx(best, rel=1e-4)
    assert 1 < machine.n_iter_ <= 30
    assert 0.08 < machine.outliers_ <= 0.1
    assert (machine.predict(X)[far] == -1).mean() > 0.6


def test_the_smoothed_objective_has_its_own_derivatives():
    rng = np.random.default_rng(0)
    F, v, h = rng.normal(size=(50, 3)), rng.normal(size=(4, 1)), 0.7
    total = sum_losses(F, v, h)
    for i in range(4):
        e = 1e-5 * np.eye(4)[:, i : i + 1]
        up, down = sum_losses(F, v + e, h), sum_losses(F, v - e, h)
        assert total.gradient[i] == pytest.approx((up.loss[0] - down.loss[0]) / 2e-5, rel=1e-5, abs=1e-6)
        np.testing.assert_allclose(total.curvature[i], (up.gradient - down.gradient) / 2e-5, rtol=1e-4, atol=1e-4)


def test_chunks_a_source_and_a_file_give_the_same(tmp_path):
    X = crowd(900)[0].astype(np.float32)
    settings = {"gamma": 0.3, "n_components": 50, "random_state": 1}
    machine = OneClassSVM(0.1, **settings).fit(X)
    chunked = OneClassSVM(0.1, **settings).fit(da.from_array(X, chunks=(200, 2)))
    np.testing.assert_allclose(chunked.decision_function(X), machine.decision_function(X), atol=1e-5)
    by_source = OneClassSVM(0.1, **settings).fit(from_arrays(X))
    assert by_source.offset_ == pytest.approx(machine.offset_, rel=1e-6)
    dkernel.save(machine, tmp_path / "m")
    again = dkernel.load(tmp_path / "m")
    np.testing.assert_array_equal(again.predict(X), machine.fit_predict(X))
    np.testing.assert_allclose(again.score_samples(X), machine.score_samples(X), rtol=1e-6)
    assert again.model_.facts["nu"] == 0.1


def test_texts_have_a_region_too():
    rng = np.random.default_rng(0)
    usual = ["".join(rng.choice(list("AC"), 20)) for _ in range(150)]
    machine = OneClassSVM(0.05, kernel=dkernel.kernels.Normalized(dkernel.SpectrumKernel(2)), n_components=60).fit(
        usual
    )
    assert machine.predict(["GTGTGTGTGTGTGTGT"]).tolist() == [-1]
    assert (machine.predict(usual) == 1).mean() > 0.9


@pytest.mark.parametrize("nu", [0.0, 1.5])
def test_a_share_of_no_rows_or_of_more_than_all_is_refused(nu):
    with pytest.raises(RecipeError, match="nu"):
        OneClassSVM(nu).fit(crowd(30)[0])
