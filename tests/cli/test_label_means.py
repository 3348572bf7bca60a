"""Categories of many values, from files and collections to one model: their inputs are means of the label."""

import dask.dataframe as dd
import numpy as np
import pytest

import dkernel
from tests.data.encoding.test_label_means import table

SETTINGS = {"gamma": 0.5, "n_components": 48, "alpha": 1e-4, "metric": "identity", "scale": "standard"}
WORDS = [w for name, value in SETTINGS.items() for w in (f"--{name.replace('_', '-')}", str(value))]
WORDS += ["--solver", "psgd"]  # with a holdout


@pytest.mark.usefixtures("here")
def test_every_kind_of_rows_gives_one_model_as_good_on_new_rows(run_to):
    frame, new = table(), table(seed=1)
    frame.to_parquet("t.parquet", index=False, row_group_size=700)
    frame.to_csv("t.csv", index=False)
    for name in ("t.parquet", "t.csv"):
        run_to("train", name, "--label", "y", "--out", f"{name}.m", *WORDS, "--kernel", "gaussian", "--quiet")
    file = dkernel.load("t.parquet.m")
    expected = file.predict(new[["zip", "x"]])
    np.testing.assert_allclose(dkernel.load("t.csv.m").predict(new[["zip", "x"]]), expected, atol=1e-3)
    rmse = np.sqrt(np.mean((expected - new["y"]) ** 2))
    assert rmse < 0.55  # of a hash of the rare values it is 0.9
    assert file.model_.facts["holdout"]["rmse"] == pytest.approx(rmse, rel=0.25)
    machine = dkernel.KernelRegressor("gaussian", solver="psgd", **SETTINGS)
    pandas = machine.fit(frame[["zip", "x"]], frame["y"]).predict(new[["zip", "x"]])
    lazy = dd.from_pandas(frame, npartitions=1)
    dask = machine.fit(lazy[["zip", "x"]], lazy["y"]).predict(new[["zip", "x"]])
    np.testing.assert_array_equal(pandas, dask)
    np.testing.assert_allclose(pandas, expected, atol=1e-3)
    parts = dd.from_pandas(frame, npartitions=4)
    several = machine.fit(parts[["zip", "x"]], parts["y"]).predict(new[["zip", "x"]])
    assert np.sqrt(np.mean((several - new["y"]) ** 2)) < 0.55
