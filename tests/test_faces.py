"""What a fit can be asked for, in Python and by the command: the same bytes of model, the same refusals."""

import inspect
from shlex import quote

import numpy as np
import pandas as pd
import pytest

import dkernel
from dkernel.errors import DKernelError
from dkernel.model.recipe import Recipe
from tests.faces import OPTIONS, Command, Python

FIXED = {"kernel": "gaussian", "gamma": 0.5, "metric": "identity", "n_components": 32, "alpha": 1e-4}
STEPS = FIXED | {"solver": "psgd"}  # so few rows are solved exactly otherwise


def table(n=400, seed=0):
    """Two features, a label of text and one of numbers."""
    rng = np.random.default_rng(seed)
    rows = pd.DataFrame(rng.normal(size=(n, 2)), columns=["a", "b"])
    return rows.assign(y=np.where(rows.a**2 + rows.b > 0.5, "in", "out"), price=rows.a * 2 + rows.b**2)


SITES = np.arange(400) % 20
CITY = np.resize(["Basel", "Genève", "Zug", None], 400)
WHEN = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(400) * 7 % 400, "D")
GAPS = np.where(np.arange(400) % 9, np.linspace(0, 1, 400), np.nan)

# What is asked -> the label, the settings, the table if it is another
FEATURES = {
    "classes": ("y", FIXED),
    "numbers": ("price", FIXED),
    "nothing but a kernel": ("y", {"kernel": "gaussian", "metric": "identity"}),
    "another kernel": ("y", STEPS | {"kernel": "Matern(nu=1.5, length=1.0)", "gamma": "auto"}),
    "steps": ("y", STEPS),
    "normal equations": ("price", FIXED | {"solver": "normal"}),
    "a scorer": ("y", STEPS | {"scoring": "roc_auc"}),
    "a loss": ("y", STEPS | {"loss": "logistic"}),
    "a constant label": ("price", FIXED, {"price": 0.1}),
    "a quantile": ("price", STEPS | {"loss": "quantile(0.9)"}),
    "Fourier features": ("y", STEPS | {"features": "fourier"}),
    "C of a support vector machine": ("y", FIXED | {"alpha": "C=10"}),
    "a scale": ("y", STEPS | {"scale": "minmax"}),
    "a metric": ("y", STEPS | {"metric": "diagonal"}),
    "a seed": ("y", STEPS | {"random_state": 3}),
    "double precision": ("y", STEPS | {"dtype": "float64"}),
    "passes": ("y", STEPS | {"passes": 2}),
    "rows held out": ("y", FIXED | {"holdout": 0.2}),
    "none held out": ("price", STEPS | {"holdout": 0}),
    "groups held out": ("price", STEPS | {"group": "site"}, {"site": SITES}),
    "rows to judge by": ("price", STEPS | {"judges": table(200, 1).drop(columns="y")}),
    "balanced classes": ("y", FIXED | {"class_weight": "balanced"}),
    "weights": ("y", FIXED | {"weight": "w"}, {"w": np.linspace(0.5, 2, 400)}),
    "calibrated": ("y", STEPS | {"calibration": "temperature", "holdout": 0.2}),
    "little effort": ("y", STEPS | {"effort": "low", "max_seconds": 20}),
    "a small model": ("y", STEPS | {"max_model_size": "1MB"}),
    "grids": ("y", STEPS | {"local": "grids(n_grids=16)"}),
    "grids alone": ("y", {"features": "none", "local": "grids(n_grids=16)"}),
    "cells": ("price", STEPS | {"local": "cells(rows=100, overlap=0.25)"}),
    "categories": ("y", FIXED, {"city": CITY}),
    "numbers that are categories": ("y", FIXED | {"categorical_features": ["site"]}, {"site": SITES}),
    "missing values": ("y", FIXED, {"gap": GAPS}),
    "missing values as the mean": ("y", FIXED | {"missing": "mean"}, {"gap": GAPS}),
    "dates": ("y", FIXED, {"when": WHEN}),
    "dates in a format": ("y", FIXED | {"formats": {"when": "%d.%m.%Y"}}, {"when": WHEN.strftime("%d.%m.%Y")}),
    "dates by the calendar": ("y", FIXED | {"dates": "calendar"}, {"when": WHEN}),
}


@pytest.mark.filterwarnings("ignore::dkernel.errors.ConstantLabelWarning")
@pytest.mark.parametrize("asked", FEATURES)
def test_both_make_the_same_bytes(asked, tmp_path):
    label, settings, *more = FEATURES[asked]
    rows = table().assign(**dict(*more)).drop(columns="price" if label == "y" else "y")
    made = [face(tmp_path).fit(rows, label, **settings) for face in (Python, Command)]
    one, other = (dkernel.load(path).model_ for path in made)
    if {"weight", "group"} & settings.keys():  # columns whose names the command alone knows
        assert one.coef.tobytes() == other.coef.tobytes()
    else:
        assert made[0].read_bytes() == made[1].read_bytes()
    recipe = one.recipe.to_dict()
    for name in {"effort", "max_seconds", "class_weight"} & settings.keys():
        assert recipe[name] == settings[name]


# What is refused, but for bad data (tests/bad_input) -> a part of the answer, the label, the settings
REFUSED = {
    "a label without squares": ("does not fit float64", "price", FIXED, {"price": table().price * 1e200}),
    "a scorer of numbers": ("is for numbers", "y", FIXED | {"scoring": "neg_mean_absolute_error"}),
    "a scorer of probabilities": ("loss", "y", FIXED | {"scoring": "neg_log_loss"}),
    "no seconds": ("is not valid", "y", FIXED | {"max_seconds": 0}),
    "too few seconds": ("usual cores, beyond", "y", STEPS | {"n_components": 2800, "max_seconds": 0.5}),
    "too little room": ("max", "y", STEPS | {"local": "grids(n_grids=512)", "max_model_size": "10kB"}),
}


@pytest.mark.parametrize("asked", REFUSED)
def test_both_refuse_it(asked, face):
    words, label, settings, *more = REFUSED[asked]
    rows = table().assign(**dict(*more)).drop(columns="price" if label == "y" else "y")
    face.refuses(words, rows, label, **settings)


# A parameter of a recipe, a value that means nothing, and words of the answer
NO_VALUES = [
    ("task", "classification", "Did you mean 'classify'? Possible: auto | classify | regress."),
    ("loss", "hing", "Did you mean 'hinge'?"),
    ("loss", "log_loss", "Did you mean 'logistic'?"),
    ("loss", "mse", "Did you mean 'squared'?"),
    ("loss", "squared_error", "Did you mean 'squared'?"),
    ("loss", None, "squared_hinge | hinge"),
    ("features", "rff", "Did you mean 'fourier'?"),
    ("landmarks", "random", "Did you mean 'uniform'?"),
    ("kernel", "Gausian(gamma=1)", "There is no kernel 'Gausian' (in 'Gausian(gamma=1)')"),
    ("kernel", "laplace", "Did you mean 'laplacian'?"),
    ("gamma", "medan", "Did you mean 'median'? Possible: auto | median | scale | a finite number above 0."),
    ("gamma", 0, "above 0"),
    ("gamma", np.nan, "above 0"),
    ("gamma", True, "above 0"),
    ("alpha", -1.0, "at least 0"),
    ("alpha", "much", "at least 0"),
    ("alpha", "C=0", "C=NUMBER above 0"),
    ("alpha", np.inf, "finite"),
    ("alpha", 10**400, "finite"),
    ("n_components", 0, "Possible: auto | a whole number of at least 1."),
    ("n_components", 10.5, "whole number"),
    ("n_components", True, "whole number"),
    ("passes", 0, "at least 1"),
    ("rounds", -3, "at least 1"),
    ("holdout", 1.0, "less than 1"),
    ("holdout", "a", "less than 1"),
    ("seed", -1, "at least 0"),
    ("dtype", "float16", "float32 | float64"),
    ("class_weight", "balance", "Did you mean 'balanced'?"),
    ("class_weight", {}, "class_weight={}"),
    ("class_weight", {"a": -1}, "class_weight['a']=-1"),
    ("class_weight", [["a"]], "class_weight"),
    ("effort", "much", "low | normal | high"),
    ("local", "gridz", "Did you mean 'grids'?"),
    ("local", "auto(n=1)", "is not valid"),
    ("local", "grids(64)", "Settings look like 'grids"),
    ("local", "grids(n_grids=open(x))", "Settings look like"),
    ("local", "grids(n_grid=64)", "has no setting 'n_grid'. Did you mean 'n_grids'?"),
    ("local", "grids(n_grids=0)", "n_grids=0 is not valid"),
    ("local", dkernel.Grids, "is not valid. Possible: auto"),
]
PARAMETERS = inspect.signature(dkernel.KernelClassifier).parameters


@pytest.mark.parametrize(("name", "value", "words"), NO_VALUES)
def test_recipe_estimator_and_command_refuse_a_value_in_one_sentence(name, value, words, run_to):
    with pytest.raises(DKernelError) as refused:
        Recipe(**{name: value})
    said = str(refused.value)
    assert words in said
    parameter = {option: parameter for parameter, option in OPTIONS.items()}.get(name, name)
    if parameter in PARAMETERS:
        with pytest.raises(DKernelError) as refused:
            dkernel.KernelClassifier(**{parameter: value}).fit([[0.0], [1.0]] * 9, [0, 1] * 9)
        assert str(refused.value) == said.replace(f"{name}=", f"{parameter}=")
    if isinstance(value, str | float | int) and name != "rounds":  # the data's type; no option
        option = f"--{name.replace('_', '-')}"
        told = run_to("train", "x.csv", "--label", "y", "--out", "m", option, value, code=2)
        said = said.replace(f"{name}={value!r}", f"{option} {quote(str(value))}").replace(
            "local='grids'", "--local grids"
        )
        assert told.stderr == f"dkernel train: {said}\n"
