"""`score`: the predictions of a model for every row of files, written to files, as the command writes them."""

from collections.abc import Sequence
from os import PathLike, fspath
from typing import Any

from dkernel.data.encoded_columns import read_as
from dkernel.data.source import Source
from dkernel.inference.score import ScoreResult
from dkernel.inference.score import write_scores as score_source
from dkernel.inference.score_columns import check_written
from dkernel.inference.score_files import score_files
from dkernel.model import model_file
from dkernel.model.conformal import COVERAGE
from dkernel.model.model import Model
from dkernel.streaming.execution.connect import default_executor


def score(
    model: Any,
    source: Any,
    out: str | PathLike[str],
    *,
    write: Sequence[str] | None = None,
    coverage: float = COVERAGE,
    by_class: bool = False,
    group: str | None = None,
    keep: str | Sequence[str] = (),
    exclude: str | Sequence[str] = (),
    allow_extra: bool = False,
    max_bad_rows: int = 0,
    max_bad_files: int = 0,
    partition_by: Sequence[str] = (),
    done: str | PathLike[str] | None = None,
    overwrite: bool = False,
) -> ScoreResult:
    """Write the predictions of a model for every row of files, in their order, as `dkernel score` does.

    The tasks run on the current `Client`, else in threads. The output appears when it is complete; called again after a
    stop, it continues.

    Parameters
    ----------
    model : str, path-like, estimator or Model
        Path or URL of a model file, or what `load` gives.
    source : str, path-like, sequence of them, or Source
        Files, folders, globs or URLs. A Source (`open_source` with the columns of the model) is read as the training
        was, with its kept columns; `keep`, `exclude`, `allow_extra`, `max_bad_files` and `done` are of files.
    out : str or path-like
        A .parquet, .csv or .npy file, a .zarr, or a folder of Parquet parts; or its URL.
    write : sequence of str, default=None
        Any of label, score, std, interval, probability, set and novelty. By default the label and, of two classes, the
        probability of the second, of more that of the label; the score of a regression, or without probabilities.
    coverage : float, default=0.9
        Share of the rows that intervals and sets are to cover.
    by_class : bool, default=False
        If True, sets have this coverage in each class.
    group : str, default=None
        Column by whose values intervals and sets have this coverage, each by itself; it is copied to the output. The
        model needs the groups of `conformalize`.
    keep : str or sequence of str, default=()
        Columns that are copied to the output; "all" for every one.
    exclude : str or sequence of str, default=()
        Columns that are ignored.
    allow_extra : bool, default=False
        If True, columns that the model does not know are ignored.
    max_bad_rows : int, default=0
        So many bad rows may be left out; they are listed beside the output.
    max_bad_files : int, default=0
        So many files may be left out that cannot be read or lack a column; list and manifest name them.
    partition_by : sequence of str, default=()
        Columns by whose values a folder is divided.
    done : str or path-like, default=None
        List of the files that were scored before, by name, size and time: they are left out, and those of this run are
        added. One run at a time may use a list.
    overwrite : bool, default=False
        If True, an output of another job is replaced.

    Returns
    -------
    ScoreResult
        Rows, parts, rejected rows and files of the output.

    Raises
    ------
    DataError
        If rows or files are bad and more than are allowed, or the output exists and is another job's.
    ModelFileError
        If the model cannot be read.
    ClusterError
        If the workers or the disk fail; the same call continues.

    Warns
    -----
    DriftWarning
        If columns have other values than in training; the result and the manifest have the figures.

    See Also
    --------
    load : Read a model, which predicts arrays and frames in memory.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from dkernel import KernelRegressor
    >>> machine = KernelRegressor(gamma=1.0, n_components=8).fit(np.arange(20.0)[:, None], np.arange(20.0))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/new.npy", np.arange(5.0)[:, None])
    ...     score(machine, f"{folder}/new.npy", f"{folder}/scores.parquet").rows
    5
    """
    model = getattr(model, "model_", model)
    model = model if isinstance(model, Model) else model_file.load_model(model)
    written = check_written(model, write, coverage, by_class, group)
    writing: dict[str, Any] = {"write": written, "overwrite": overwrite, "max_bad_rows": max_bad_rows}
    with default_executor() as executor:
        if isinstance(source, Source):
            source = read_as(source, model.columns, model.reading, model.recipe.dtype)
            return score_source(model, source, out, executor, partition_by=partition_by, **writing)
        result, _ = score_files(
            model,
            source,
            out,
            executor,
            keep=[*((keep,) if isinstance(keep, str) else keep), *([] if group is None else [group])],
            partition_by=partition_by,
            done=None if done is None else fspath(done),
            max_bad_files=max_bad_files,
            reading={"exclude": exclude, "allow_extra": allow_extra},
            **writing,
        )
    return result
