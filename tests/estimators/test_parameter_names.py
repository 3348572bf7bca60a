"""Parameters that an estimator does not have are answered by the one that is meant."""

import inspect

import pytest
from sklearn.base import clone

import dkernel
from dkernel.estimators.parameters import UnknownParameterError


@pytest.mark.parametrize(
    ("estimator", "parameter", "words"),
    [
        (dkernel.KernelClassifier, "C", "KernelClassifier has no parameter 'C'. Use alpha='C=1'."),
        (dkernel.KernelClassifier, "n_jobs", "needs none"),
        (dkernel.KernelClassifier, "probability", "Use calibration='platt'."),
        (dkernel.KernelRegressor, "kernal", "Did you mean 'kernel'?"),
        (dkernel.KernelPCA, "n_columns", "Use n_map_components."),
        (dkernel.KernelKMeans, "n_columns", "Use n_map_components."),
        (dkernel.NystromFeatures, "n_landmarks", "Use n_components."),
        (dkernel.Tuner, "grid", "Use param_grid."),
    ],
)
def test_a_parameter_of_another_name_is_answered(estimator, parameter, words):
    with pytest.raises(UnknownParameterError) as found:
        estimator(**{parameter: 1})
    assert words in str(found.value)
    assert isinstance(found.value, TypeError)  # as Python says it


def test_the_signature_is_as_written_and_clones_are_equal():
    assert "n_components" in inspect.signature(dkernel.KernelClassifier).parameters
    machine = dkernel.KernelPCA(2, n_map_components=16)
    assert clone(machine).get_params() == machine.get_params()
