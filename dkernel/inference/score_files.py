"""Scoring of files: they are opened as the model reads them, less those that are done, and scored."""

from collections.abc import Sequence
from os import PathLike
from typing import Any

from dkernel.data.arrow_streams import is_stream
from dkernel.data.encoded_columns import reading_of
from dkernel.data.paths import expand
from dkernel.data.source import Source
from dkernel.data.usable_files import DoneFiles
from dkernel.data.writers.object_store import destination_of
from dkernel.execution.base import Executor
from dkernel.inference.score import ScoreResult, score
from dkernel.model import Model
from dkernel.persistence.model_file import digest_of
from dkernel.streaming.open_files import open_files


def score_files(
    model: Model,
    data: Any,
    out: str | PathLike[str],
    executor: Executor,
    *,
    keep: Sequence[str] = (),
    partition_by: Sequence[str] = (),
    done: str | None = None,
    max_bad_files: int = 0,
    reading: dict[str, Any] | None = None,
    **writing: Any,
) -> tuple[ScoreResult, Source | None]:
    """Score files into `out`; the result, and the source, None where all files are done.

    Parameters
    ----------
    keep : columns that are carried to the output; ("all",) for every one
    done : list of the files that were scored before (`DoneFiles`), to which these are added
    max_bad_files : files that may be left out, at the opening or while they are read
    reading : further arguments of `open_source`
    writing : further arguments of `score`
    """
    reading, divided = reading or {}, tuple(partition_by)
    data = [data] if isinstance(data, (str, PathLike)) or is_stream(data) else list(data)
    form, left = destination_of(out, partition_by=divided).format, []
    if done is not None:
        bad: dict[str, str] = {}
        left = DoneFiles(done).left_of(expand(data, bad=bad if max_bad_files else None))
        if not left:
            return ScoreResult(0, 0, str(out), skipped=True, bad_files=bad), None
        data = [*left, *bad]
    source = open_files(
        data,
        executor,
        columns=model.columns,
        keep=tuple(dict.fromkeys([*keep, *divided])),
        dtype=model.recipe.dtype,
        kernel=model.map.kernel,
        **reading_of(model),
        known=model.known_columns,
        kept_as=form.kept_as,
        quarantine=True,
        max_bad_files=max_bad_files,
        **reading,
    )
    result = score(model, source, out, executor, partition_by=divided, max_bad_files=max_bad_files, **writing)
    if done is not None:
        scored = [file for file in left if file.name not in result.bad_files]
        DoneFiles(done).add(scored, model=digest_of(model), out=str(out))
    return result, source
