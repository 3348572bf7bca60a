"""Each tool of dask-ml on the page: what stands around our estimators on this Dask, and what fails without them too."""

import dask.array as da
import dask.dataframe as dd
import dask_ml.metrics as metrics
import dask_ml.model_selection as selection
import dask_ml.preprocessing as steps
import numpy as np
import pandas as pd
import pytest
from dask_ml.cluster import KMeans
from dask_ml.compose import make_column_transformer
from dask_ml.decomposition import PCA, TruncatedSVD
from dask_ml.ensemble import BlockwiseVotingClassifier
from dask_ml.impute import SimpleImputer
from sklearn.linear_model import SGDClassifier
from sklearn.pipeline import make_pipeline

from dkernel import KernelClassifier, KernelRegressor
from tests.pages import text_of

SMALL = {"kernel": "gaussian", "gamma": 0.5, "n_components": 64, "scale": "standard", "alpha": 1e-5, "local": "none"}
NUMBERS = ["a", "b"]
rng = np.random.default_rng(0)
FRAME = pd.DataFrame({"a": rng.normal(size=800), "b": rng.normal(size=800), "c": rng.choice(["u", "v", "w"], 800)})
FRAME["label"] = (FRAME.a**2 + FRAME.b**2 < 1.4).astype("int64")
DDF = dd.from_pandas(FRAME, npartitions=4)
X, Y = (DDF[part].to_dask_array(lengths=True) for part in (NUMBERS, "label"))

OF_ARRAYS = [
    steps.StandardScaler(), steps.MinMaxScaler(), steps.RobustScaler(), steps.QuantileTransformer(n_quantiles=100),
    steps.PolynomialFeatures(), steps.BlockTransformer(np.tanh), PCA(2), TruncatedSVD(1), KMeans(8),
]  # fmt: skip
OF_FRAMES = {
    "StandardScaler": (NUMBERS, [steps.StandardScaler()]),
    "MinMaxScaler": (NUMBERS, [steps.MinMaxScaler()]),
    "PolynomialFeatures": (NUMBERS, [steps.PolynomialFeatures()]),
    "SimpleImputer": (NUMBERS, [SimpleImputer()]),
    "DummyEncoder": ([*NUMBERS, "c"], [steps.Categorizer(), steps.DummyEncoder()]),
    "OrdinalEncoder": ([*NUMBERS, "c"], [steps.Categorizer(), steps.OrdinalEncoder()]),
}
FAILS = {
    "RobustScaler": lambda: steps.RobustScaler().fit(DDF[NUMBERS]),
    "ColumnTransformer": lambda: make_column_transformer((steps.StandardScaler(), NUMBERS)).fit_transform(DDF),
    "log_loss": lambda: metrics.log_loss(Y, da.stack([1 - Y, Y], axis=1) * 0.9 + 0.05),
    "r2_score": lambda: metrics.r2_score(Y, Y * 0.9),
    "BlockwiseVotingClassifier": lambda: (
        BlockwiseVotingClassifier(SGDClassifier(), classes=[0, 1]).fit(X, Y).predict(X)
    ),
}


@pytest.mark.filterwarnings("ignore:invalid value encountered in divide:RuntimeWarning")  # QuantileTransformer's
@pytest.mark.parametrize("step", OF_ARRAYS, ids=lambda step: type(step).__name__)
def test_a_step_before_of_arrays(step):
    found = make_pipeline(step, KernelClassifier(**SMALL)).fit(X, Y).predict(X)
    assert isinstance(found, da.Array)
    assert float((found == Y).mean()) > 0.6


@pytest.mark.parametrize("name", OF_FRAMES)
def test_a_step_before_of_frames(name):
    columns, before = OF_FRAMES[name]
    machine = make_pipeline(*before, KernelClassifier(**SMALL)).fit(DDF[columns], DDF.label)
    assert float((machine.predict(DDF[columns]).compute() == FRAME.label).mean()) > 0.9


def test_a_division_of_a_frame_and_the_accuracy():
    train, test = selection.train_test_split(DDF, shuffle=True, random_state=0)
    machine = KernelClassifier(**SMALL).fit(train[NUMBERS], train.label)
    assert metrics.accuracy_score(test.label, machine.predict(test[NUMBERS])) > 0.9


@pytest.mark.parametrize("kind", [selection.KFold, selection.ShuffleSplit])
def test_a_division_of_arrays(kind):
    for train, test in kind(2).split(X, Y):
        assert KernelClassifier(**SMALL).fit(X[train], Y[train]).score(X[test], Y[test]) > 0.9


@pytest.mark.parametrize("metric", [metrics.mean_squared_error, metrics.mean_absolute_error])
def test_errors_of_arrays(metric):
    machine = KernelRegressor(**SMALL).fit(X, X[:, 0])
    assert metric(X[:, 0], machine.predict(X)) < 0.1


@pytest.mark.parametrize("name", FAILS)
def test_what_fails_without_us_too(name):
    with pytest.raises((AttributeError, TypeError, ValueError)):
        FAILS[name]()


def test_the_page_names_them_all():
    table = text_of("dkernel/TOUR.md").split("### With dask-ml")[1].split("\n#")[0]
    lines = [line for line in table.splitlines() if line.startswith("| ")]
    fails = "\n".join(line for line in lines if "fails" in line)
    tried = [*(type(step).__name__ for step in OF_ARRAYS), *OF_FRAMES, *FAILS]
    assert [name for name in tried if f"`{name}`" not in table] == []
    assert [name for name in FAILS if f"`{name}`" not in fails] == []
