"""The table of parameters, of which the checks of a recipe, the options and the docstrings of estimators are made.

The command imports it for its help, so it imports no catalogue: a test compares its words with theirs.
"""

from collections.abc import Mapping

from dkernel.local_settings import local_text
from dkernel.recipe_checks import (
    Parameter,
    class_weights,
    columns,
    division,
    kernel_text,
    label,
    landmark_rule,
    loss_text,
    or_none,
    positive_number,
    real,
    size,
    spelled,
    strength,
    whole,
    word,
    word_or,
)

EFFORTS: Mapping[str, float] = {"low": 0.25, "normal": 1.0, "high": 4.0}
"""Word -> multiple of what the choice and the local stage may cost, see `dkernel.problem.budget`."""
_FEATURES = ("auto", "nystrom", "random", "exact", "fourier", "maclaurin", "tensorsketch", "none")
_SAMPLINGS = ("auto", "iid", "orthogonal", "sobol", "halton", "structured", "fastfood")
_OF_BOTH = ("auto", "squared")
_OF_CLASSES = ("squared_hinge", "hinge", "logistic", "softmax", "perceptron")
_OF_NUMBERS = ("huber", "epsilon_insensitive", "quantile")
_LANDMARK_RULES = ("uniform", "stratified", "kmeans", "leverage", "rpcholesky")

_TABLE = (
    Parameter(
        "task",
        "auto",
        'Kind of the answer. "auto" is regression if the label is a floating-point number.',
        word,
        ("auto", "classify", "regress"),
    ),
    Parameter(
        "positive",
        None,
        "Label to learn against all others. The classes are then False and True.",
        or_none(label),
        (),
        "VALUE",
        "bool, number or str",
    ),
    Parameter(
        "kernel",
        "auto",
        "Name, or 'Laplacian() + Linear()'. \"auto\" chooses from Gaussian, Laplacian and sums of them, on a sample.",
        kernel_text,
        ("auto",),
        "EXPRESSION",
        "Kernel, str",
    ),
    Parameter(
        "gamma",
        "auto",
        'Width of a kernel that is given by name. It also fills gamma="auto" in an expression; "auto" chooses it '
        "on a sample.",
        word_or(positive_number()),
        ("auto", "median", "scale"),
        "NUMBER",
        "float",
    ),
    Parameter(
        "features",
        "auto",
        'Kind of the map. "random" is the one that suits the kernel, "none" a constant, so that grids or cells learn '
        'everything, and "auto" is "nystrom", above 20,000 components "random".',
        word,
        _FEATURES,
    ),
    Parameter(
        "n_components",
        "auto",
        'Number of landmarks or random features. With fewer rows, all rows are landmarks; "auto" is by rows, and '
        "fewer landmarks if more would gain little.",
        word_or(whole(1)),
        ("auto",),
        "N",
        "int",
    ),
    Parameter(
        "rank",
        None,
        "Directions of the Nystrom components to keep. None keeps all that the whitening keeps.",
        or_none(whole(1)),
        (),
        "N",
        "int",
    ),
    Parameter(
        "landmarks",
        "uniform",
        'Rule that chooses the landmarks. "stratified" is by class; in Python also an array of landmarks in the units '
        "of X.",
        landmark_rule,
        _LANDMARK_RULES,
        "",
        "array",
        {"regress": tuple(rule for rule in _LANDMARK_RULES if rule != "stratified")},
    ),
    Parameter(
        "sampling",
        "auto",
        "Way in which the frequencies of Fourier features are drawn.",
        word,
        _SAMPLINGS,
    ),
    Parameter(
        "form",
        "pairs",
        "Fourier features: sine and cosine, or cosine with an offset.",
        word,
        ("pairs", "offset", "exponential"),
    ),
    Parameter(
        "loss",
        "auto",
        'Loss; "auto" is by the task and the classes. For numbers it is "squared", for classes "squared_hinge", or of '
        'few rows of several classes "softmax" with a linear kernel, where that has fewer wrong labels. "softmax" sees '
        'all classes at once. Numbers may stand behind "huber(1.35)", "epsilon_insensitive(0.1)" and "quantile(0.5)", '
        "those of the first two in standard deviations of the target.",
        loss_text,
        ("auto", *_OF_CLASSES, "squared", *_OF_NUMBERS),
        of_task={
            "classify": (*_OF_BOTH, *_OF_CLASSES),
            "regress": (*_OF_BOTH, *_OF_NUMBERS),
        },
    ),
    Parameter(
        "class_weight",
        None,
        'Weights of the classes. "balanced" gives all classes the same total weight; in Python also label -> weight.',
        class_weights,
        ("balanced",),
        "",
        "dict",
    ),
    Parameter(
        "alpha",
        "auto",
        'Regularization; "C=10" is 1 / (10 n). "auto" chooses from a path judged on the holdout.',
        strength,
        ("auto",),
        "NUMBER|C=NUMBER",
        "float, str",
    ),
    Parameter(
        "solver",
        "auto",
        'Solver. "psgd" is preconditioned stochastic gradient descent. The others find the optimum: "normal" (squared '
        'loss, one pass for every alpha), "pcg" (squared loss), "lbfgs" (losses without kinks) and "exact" (all losses '
        'but the perceptron, up to 4,096 rows, all of them landmarks and none held out). "auto" is "exact" for so '
        "few rows, unless passes, patience, a local stage or a holdout ask for another way, else "
        '"psgd". Blocks of `partial_fit` are always learned by "psgd".',
        word,
        ("auto", "psgd", "exact", "normal", "pcg", "lbfgs"),
    ),
    Parameter(
        "passes",
        "auto",
        'Passes over the data. "auto" is 1, or 2 if there are fewer than 64 rows per component. For "pcg" and "lbfgs" '
        "it is the upper limit, 100 if it is 1.",
        word_or(whole(1)),
        ("auto",),
        "N",
        "int",
    ),
    Parameter(
        "patience",
        0,
        'Passes of "psgd" in a row without a lower loss on the holdout, or on the rows given to judge by, after which '
        "the fit stops; 0 for no limit.",
        whole(0),
        (),
        "N",
        "int",
    ),
    Parameter(
        "polish",
        "auto",
        'Upper limit of the passes of "pcg" or "lbfgs" after "psgd". "auto" is up to 10 if there are few rows per '
        'component, passes is "auto" and the loss has no kinks.',
        word_or(whole(0)),
        ("auto",),
        "N",
        "int",
    ),
    Parameter("rounds", "auto", "Updates of each pass.", word_or(whole(1)), ("auto",), "N", "int"),
    Parameter(
        "local",
        "auto",
        'Stage for the residual: random bins ("grids") or exact machines ("cells"). It learns what the map leaves of '
        "targets that are too rough for some thousand components. Each machine has a cell of a partition of the rows. "
        "The stage is left out where the holdout gains less than one standard error, is not for hinge and "
        'perceptron, and learns no blocks of rows. "auto" tries both on some 4,000 rows and more, where kernel, gamma, '
        'map, alpha and solver are open. A stage may have settings: "grids(n_grids=1024)", "cells(rows=2048)", in '
        "Python also Grids(n_grids=1024), Cells(rows=2048).",
        local_text,
        ("auto", "none", "grids", "cells"),
        "",
        "Grids, Cells",
    ),
    Parameter(
        "max_model_size",
        None,
        'Most bytes of the model file, "200MiB". Fewer grids are taken where their number is "auto", and a fit whose '
        "model may be larger is refused.",
        or_none(size),
        (),
        "SIZE",
        "int or str",
    ),
    Parameter(
        "effort",
        "normal",
        'Work that the choices and `local` "auto" may take: "low" is a quarter and "high" four times as much.',
        word,
        ("low", "normal", "high"),
    ),
    Parameter(
        "max_seconds",
        None,
        "Limit of the predicted work, in seconds of two cores of usual speed. Fewer components are taken where their "
        'number is "auto", the choices and the local stage take what is left, and a fit that needs more is refused. No '
        "clock is read, so the model is the same on every machine.",
        or_none(positive_number()),
        (),
        "N",
        "float",
    ),
    Parameter(
        "metric",
        "auto",
        'Inner product of the features, learned from the gradients of a first fit to a sample. "auto" uses it if it '
        "lowers the loss and gamma is not given.",
        word,
        ("auto", "identity", "diagonal", "full"),
    ),
    Parameter(
        "scale",
        "auto",
        'Scaling of the features. Use "none" for kernels of differences, and for features near 0: products of features '
        "that are not centred lose digits with the square of offset / deviation.",
        spelled({None: "none"}),
        ("auto", "standard", "minmax", "global", "maxabs", "none"),
    ),
    Parameter(
        "holdout",
        0.05,
        'Share of the rows kept out of the fit, by which alpha and iterate are judged; 0 for none. "exact" keeps none.',
        real("a share of at least 0 and less than 1", lambda v: 0 <= v < 1),
        (),
        "SHARE",
        "float",
    ),
    Parameter(
        "holdout_by",
        "random",
        'Rows of the holdout: "random", whole groups of rows with the same value of a column ("group:customer"), or '
        'those with the last values of a column ("time:date"), so that nothing is judged by rows of a group, or of a '
        "time, that it was learned from. The column is no feature. In Python, groups and eval_set of `fit`.",
        division,
        ("random",),
        "group:COL|time:COL",
    ),
    Parameter(
        "calibration",
        "auto",
        "Curve for each class that turns scores into probabilities, fitted to rows that were left out: the holdout, or "
        'those of the folds of "exact". "auto" is "platt" where the loss has no probabilities; a curve by name is for '
        'all losses but softmax, and "sigmoid" is "platt". Labels remain those of the scores. Blocks of `partial_fit` '
        "leave no rows out, so they have no curve.",
        # scikit-learn's CalibratedClassifierCV calls Platt's curve so.
        spelled({None: "none", "sigmoid": "platt"}),
        ("auto", "none", "platt", "isotonic"),
    ),
    Parameter(
        "categorical",
        "auto",
        'Columns that are categories. "auto" is text and stored categories, names are these columns too. A category '
        "becomes one-hot inputs of value sqrt(1/2); if it has more than 100 values, the rare ones share inputs by a "
        "hash.",
        columns,
        ("auto", "none"),
        "COL,...",
        "list",
    ),
    Parameter(
        "missing",
        "indicator",
        "Missing features: mean and 0/1 input, mean, or error. The mean is that of the column.",
        word,
        ("indicator", "mean", "error"),
    ),
    Parameter(
        "dates",
        "calendar",
        "Inputs of dates: the seconds with year, month, weekday and hour, or the seconds alone.",
        word,
        ("calendar", "seconds"),
    ),
    Parameter("seed", 0, "Seed of all random choices.", whole(0), (), "N", "int"),
    Parameter(
        "dtype",
        "float32",
        "Precision in which features are read. If not given, it is float64 if the first rows have digits that float32 "
        "cannot hold.",
        word,
        ("float32", "float64"),
    ),
)
PARAMETERS: Mapping[str, Parameter] = {p.name: p for p in _TABLE}
"""Name -> parameter, in the order of the recipe."""

RENAMED: Mapping[str, str] = {
    "n_grids": "local='grids(n_grids=N)'",
    "one_hot": "local='grids(one_hot=...)'",
    "cell_rows": "local='cells(rows=N)'",
    "cell_overlap": "local='cells(overlap=SHARE)'",
    "cell_partitions": "local='cells(partitions=N)'",
}
"""Parameter of an earlier version -> what says it now."""


def meant_by(name: str) -> str:
    """' Use local=...' for a parameter of an earlier version, or nothing.

    Examples
    --------
    >>> meant_by("n_grids"), meant_by("gamma")
    (" Use local='grids(n_grids=N)'.", '')
    """
    return f" Use {RENAMED[name]}." if name in RENAMED else ""
