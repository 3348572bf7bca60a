"""The table of parameters, of which recipe, options, help, pages and the docstrings of estimators are made.

The command imports it for its help, so it imports no catalogue that loads numpy: a test compares its words with theirs.
A new parameter is one field here, and an argument of the estimators that have it, whose signatures are written out.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from dkernel.model.local_settings import STAGES, local_text
from dkernel.model.recipe_checks import (
    Label,
    Parameter,
    class_weights,
    columns,
    count_parameter,
    division,
    formats,
    kernel_text,
    landmark_rule,
    loss_text,
    or_none,
    parameter,
    parameter_table,
    positive_number,
    real,
    scorer_name,
    size,
    strength,
    word_of_spelling,
    word_or,
    word_parameter,
)
from dkernel.model.solver_table import SOLVERS

EFFORTS: Mapping[str, float] = {"low": 0.25, "normal": 1.0, "high": 4.0}
"""Word -> multiple of what the choice and the local stage may cost, see `dkernel.solvers.budget`."""
_OF_BOTH = ("auto", "squared")
_OF_CLASSES = ("squared_hinge", "hinge", "logistic", "softmax", "perceptron")
_OF_NUMBERS = ("huber", "epsilon_insensitive", "quantile")
_SCORERS_OF_CLASSES = ("accuracy", "balanced_accuracy", "roc_auc", "average_precision", "neg_log_loss")
_SCORERS_OF_NUMBERS = ("neg_root_mean_squared_error", "neg_mean_absolute_error")
_LANDMARK_RULES = ("uniform", "stratified", "kmeans", "leverage", "rpcholesky")


@dataclass(frozen=True)
class Parameters:
    """All parameters of a recipe, each with its type, default, words, check and sentences.

    `Recipe` derives from it and adds what they mean together.
    """

    task: str = word_parameter(
        ("auto", "classify", "regress"),
        'Kind of the answer. "auto" is regression if the label is a floating-point number.',
        usual=True,
    )
    kernel: str = parameter(
        "auto",
        "Name, or 'Laplacian() + Linear()'. \"auto\" chooses from Gaussian and Laplacian, on a sample.",
        kernel_text,
        words=("auto",),
        form="EXPRESSION",
        kind="Kernel, str",
        usual=True,
    )
    gamma: str | float = parameter(
        "auto",
        'Width of a kernel that is given by name. It also fills gamma="auto" in an expression; "auto" chooses it '
        "on a sample.",
        word_or(positive_number),
        words=("auto", "median", "scale"),
        form="NUMBER",
        kind="float",
        usual=True,
    )
    features: str = word_parameter(
        ("auto", "nystrom", "random", "exact", "fourier", "maclaurin", "tensorsketch", "none"),
        'Kind of the map. "random" is the one that suits the kernel, "none" a constant, so that grids or cells learn '
        'everything, and "auto" is "nystrom", above 20,000 components "random".',
    )
    n_components: str | int = count_parameter(
        'Number of landmarks or random features. With fewer rows, all rows are landmarks; "auto" is by rows, and '
        "fewer landmarks if more would gain little.",
        usual=True,
    )
    landmarks: str = parameter(
        "uniform",
        'Rule that chooses the landmarks. "stratified" is by class; in Python also an array of landmarks in the units '
        "of X.",
        landmark_rule,
        words=_LANDMARK_RULES,
        kind="array",
        of_task={"regress": tuple(rule for rule in _LANDMARK_RULES if rule != "stratified")},
    )
    sampling: str = word_parameter(
        ("auto", "iid", "orthogonal", "sobol", "structured", "fastfood"),
        "Way in which the frequencies of Fourier features are drawn.",
    )
    loss: str = parameter(
        "auto",
        'Loss; "auto" is by the task and the classes. For numbers it is "squared", for classes "squared_hinge", or of '
        'few rows of several classes "softmax" with a linear kernel, where that has fewer wrong labels. "softmax" sees '
        'all classes at once. Numbers may stand behind "huber(1.35)", "epsilon_insensitive(0.1)" and "quantile(0.5)", '
        "those of the first two in deviations of the target, by its quartiles.",
        loss_text,
        words=("auto", *_OF_CLASSES, "squared", *_OF_NUMBERS),
        of_task={
            "classify": (*_OF_BOTH, *_OF_CLASSES),
            "regress": (*_OF_BOTH, *_OF_NUMBERS),
        },
        usual=True,
    )
    class_weight: str | Mapping[Label, float] | None = parameter(
        None,
        'Weights of the classes. "balanced" gives all classes the same total weight; in Python also label -> weight. '
        "Labels and probabilities are those of rows in these numbers.",
        class_weights,
        words=("balanced",),
        kind="dict",
        hash=False,
    )
    alpha: str | float = parameter(
        "auto",
        'Regularization; "C=10" is 1 / (10 n). "auto" chooses from a path judged on the holdout.',
        strength,
        words=("auto",),
        form="NUMBER|C=NUMBER",
        kind="float, str",
        usual=True,
    )
    scoring: str = parameter(
        "loss",
        "Scorer of scikit-learn by which rows that are left out choose among ways, settings and alphas, and end the "
        'stages. "loss" is the loss, and of two fits to classes none with more wrong labels is taken. Of several '
        "classes a ranking is the mean over the classes, each against the rest; rows count alike.",
        scorer_name,
        words=("loss", *_SCORERS_OF_CLASSES, *_SCORERS_OF_NUMBERS),
        of_task={"classify": ("loss", *_SCORERS_OF_CLASSES), "regress": ("loss", *_SCORERS_OF_NUMBERS)},
    )
    solver: str = word_parameter(
        tuple(SOLVERS),
        'Solver. "psgd" is preconditioned stochastic gradient descent. The others find the optimum: "normal" (squared '
        'loss, one pass for every alpha), "pcg" (squared loss), "lbfgs" (losses without kinks) and "exact" (all losses '
        'but the perceptron, up to 4,096 rows, all of them landmarks and none held out). "auto" is "exact" for so '
        "few rows, unless passes, a local stage or a holdout ask for another way, or nothing is given and "
        'local stages are tried; else "psgd". Blocks of `partial_fit` are always learned by "psgd".',
    )
    passes: str | int = count_parameter(
        'Passes over the data. "auto" is 1, or 2 if there are fewer than 64 rows per component. For "pcg" and "lbfgs" '
        "it is the upper limit, 100 if it is 1.",
    )
    polish: str | int = count_parameter(
        'Upper limit of the passes of "pcg" or "lbfgs" after "psgd". "auto" is up to 10 if there are few rows per '
        'component, passes is "auto" and the loss has no kinks.',
        least=0,
    )
    rounds: str | int = count_parameter("Updates of each pass.")
    local: str = parameter(
        "auto",
        'Stage for the residual: random bins ("grids") or exact machines ("cells"). It learns what the map leaves of '
        "targets that are too rough for some thousand components. Each machine has a cell of a partition of the rows. "
        "The stage is left out where the holdout gains less than one standard error, is not for hinge and "
        'perceptron, and learns no blocks of rows. "auto" tries both on some 3,000 rows and more, where kernel, gamma, '
        'map, alpha and solver are open. A stage may have settings: "grids(n_grids=1024)", "cells(rows=2048)", in '
        "Python also Grids(n_grids=1024), Cells(rows=2048).",
        local_text,
        words=("auto", "none", *STAGES),
        kind=", ".join(stage.__name__ for stage in STAGES.values()),
        usual=True,
    )
    max_model_size: int | None = parameter(
        None,
        'Most bytes of the model file, "200MiB". Fewer grids are taken where their number is "auto", and a fit whose '
        "model may be larger is refused.",
        or_none(size),
        form="SIZE",
        kind="int or str",
    )
    effort: str = word_parameter(
        tuple(EFFORTS),
        'Work that the choices and `local` "auto" may take: "low" is a quarter and "high" four times as much.',
        default="normal",
    )
    max_seconds: float | None = parameter(
        None,
        "Limit of the predicted work, in seconds of two cores of usual speed. Fewer components are taken where their "
        'number is "auto", the choices and the local stage take what is left, and a fit that needs more is refused. No '
        "clock is read, so the model is the same on every machine.",
        or_none(positive_number),
        form="N",
        kind="float",
        group="Run",
    )
    metric: str = word_parameter(
        ("auto", "identity", "diagonal", "full"),
        'Inner product of the features, learned from the gradients of a first fit to a sample. "auto" uses it if it '
        "lowers the loss and gamma is not given.",
    )
    scale: str = parameter(
        "auto",
        'Scaling of the features. Use "none" for kernels of differences, and for features near 0: products of features '
        'that are not centred lose digits with the square of offset / deviation. "quantile" takes each number by the '
        "normal quantile of its rank, for long tails and outliers.",
        word_of_spelling({None: "none"}),
        words=("auto", "standard", "minmax", "global", "maxabs", "quantile", "none"),
    )
    holdout: float = parameter(
        0.05,
        'Share of the rows kept out of the fit, by which alpha and iterate are judged; 0 for none. "exact" keeps none.',
        real("a share of at least 0 and less than 1", lambda v: 0 <= v < 1),
        form="SHARE",
        kind="float",
    )
    holdout_by: str = parameter(
        "random",
        'Rows of the holdout: "random", whole groups of rows with the same value of a column ("group:customer"), or '
        'those with the last values of a column ("time:date"), so that nothing is judged by rows of a group, or of a '
        "time, that it was learned from. Dates keep their calendar as features, and their trend ends with the "
        "training; another column is no feature. In Python, groups and eval_set of `fit`.",
        division,
        words=("random",),
        form="group:COL|time:COL",
    )
    calibration: str = parameter(
        "auto",
        'What makes probabilities of scores, by rows that were left out. "temperature" is a softmax of bent scores '
        'times a slope, larger for rare classes if that gains; "auto" is that where the loss has no probabilities. '
        "The label is the most probable class. Rows of `partial_fit` and of `dkernel update` are scored for it before "
        "they are learned.",
        word_of_spelling({None: "none"}),
        words=("auto", "none", "temperature"),
    )
    categorical: str | tuple[str, ...] = parameter(
        "auto",
        'Columns that are categories. "auto" is text and stored categories, names are these columns too. A category '
        "becomes one-hot inputs of value sqrt(1/2); if it has more than 100 values, the rare ones share inputs by a "
        "hash.",
        columns,
        words=("auto", "none"),
        form="COL,...",
        kind="list",
        group="Data",
        usual=True,
    )
    missing: str = word_parameter(
        ("indicator", "mean", "error"),
        "Missing features: mean and 0/1 input, mean, or error. The mean is that of the column.",
        group="Data",
        usual=True,
    )
    dates: str = word_parameter(
        ("calendar", "seconds"),
        "Inputs of dates: the seconds with year, month, weekday and hour, or the seconds alone.",
        group="Data",
    )
    formats: Mapping[str, str] | None = parameter(
        None,
        "Column and how its texts are written: dates as of strptime, day=%d.%m.%Y, and numbers by an example of them, "
        "pay=$1,234.5 or pay=1234,5. Dates of ISO 8601 need none, nor numbers such as 1234.5. Can be repeated, or "
        "have a semicolon between columns; in Python column -> format.",
        formats,
        form="COL=FORMAT",
        kind="dict",
        group="Data",
        hash=False,
    )
    seed: int = count_parameter("Seed of all random choices.", least=0, default=0)
    dtype: str = word_parameter(
        ("float32", "float64"),
        "Precision in which features are read. If not given, it is float64 if the first rows have digits that float32 "
        "cannot hold.",
        group="Data",
    )


PARAMETERS: Mapping[str, Parameter] = parameter_table(Parameters)
"""Name -> parameter, in the order of the recipe."""
