"""SpectralClustering against the exact eigenvectors of the whole affinity, and scikit-learn's."""

import dask.array as da
import numpy as np
import sklearn.cluster
from sklearn.datasets import make_moons
from sklearn.metrics import adjusted_rand_score

from dkernel import Gaussian, SpectralClustering


def test_all_rows_as_landmarks_give_the_exact_embedding():
    X, _ = make_moons(250, noise=0.05, random_state=0)
    machine = SpectralClustering(3, gamma=8.0, n_map_components=250, random_state=0).fit(X)
    K = Gaussian(gamma=8.0)(X, X)
    d = K.sum(axis=1)
    values, U = np.linalg.eigh(K / np.sqrt(np.outer(d, d)))
    np.testing.assert_allclose(machine.eigenvalues_, values[::-1][:3], rtol=1e-9)
    U = U[:, ::-1][:, :3]
    U /= np.linalg.norm(U, axis=1)[:, None]
    Y = next(machine._phi.strips(X))
    np.testing.assert_allclose(Y @ Y.T, U @ U.T, atol=1e-6)


def test_moons_of_scikit_learn_and_new_rows():
    X, moon = make_moons(1200, noise=0.05, random_state=0)
    machine = SpectralClustering(2, gamma=20.0, n_map_components=256, random_state=0)
    exact = sklearn.cluster.SpectralClustering(2, gamma=20.0, assign_labels="kmeans", random_state=0).fit_predict(
        X[:600]
    )
    assert adjusted_rand_score(exact, machine.fit_predict(X[:600])) > 0.99
    assert adjusted_rand_score(moon, machine.labels_.tolist() + machine.predict(X[600:]).tolist()) > 0.99
    lazy = machine.fit(da.from_array(X, chunks=(300, 2)))
    assert isinstance(lazy.labels_, da.Array)
    assert adjusted_rand_score(moon, lazy.labels_.compute()) > 0.99
