"""Scores files: opens the ones that are not scored yet as the model reads them, and writes their scores."""

from collections.abc import Sequence
from os import PathLike
from typing import Any

from dkernel.data.arrow_streams import list_data
from dkernel.data.encoded_columns import reading_arguments
from dkernel.data.paths import File, expand
from dkernel.data.source import Source
from dkernel.data.usable_files import DoneFiles, NoGoodFileError, check_bad_files, mask_names
from dkernel.data.writers.destination import Destination
from dkernel.errors import DamagedFileError, mask_urls
from dkernel.inference.score import ScoreResult, write_scores
from dkernel.model.model import Model
from dkernel.model.model_file import compute_digest
from dkernel.streaming.execution.base import Executor
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
    """Score files into `out`; the result, and the source, None where all files are done or known to be bad.

    Parameters
    ----------
    keep : columns that are carried to the output; ("all",) for every one
    done : list of the files that were scored before (`DoneFiles`), to which these are added
    max_bad_files : files that may be left out, at the opening or while they are read; new ones where a list is given
    reading : further arguments of `open_source`
    writing : further arguments of `score`
    """
    reading, divided = reading or {}, tuple(partition_by)
    data = list_data(data)
    kept_as = Destination(out, partition_by=divided).format.kept_as
    listed = None if done is None else DoneFiles(done)
    remaining: list[File] = []
    bad: dict[str, str] = {}
    known: dict[str, str] = {}
    if listed is not None:
        files = expand(data, bad=bad if max_bad_files else None)
        remaining = listed.new_files(files)
        known = listed.files_left_out(remaining, bad)
        max_bad_files += len(known) if max_bad_files else 0  # what an earlier run has left out counts once
        data = [*remaining, *bad]
        if not remaining:
            check_bad_files(bad, max_bad_files, len(files))
    source: Source | None = None
    result = ScoreResult(0, 0, str(out), skipped=True, bad_files=known | mask_names(bad))
    try:
        if remaining or listed is None:
            source = open_files(
                data,
                executor,
                columns=model.columns,
                keep=tuple(dict.fromkeys([*keep, *divided])),
                dtype=model.recipe.dtype,
                kernel=model.map.kernel,
                **reading_arguments(model.reading),
                known=model.known_columns,
                kept_as=kept_as,
                quarantine=True,
                max_bad_files=max_bad_files,
                **reading,
            )
            writing |= {"partition_by": divided, "max_bad_files": max_bad_files}
            result = write_scores(model, source, out, executor, **writing)
    except DamagedFileError as error:
        omit = "" if max_bad_files else " To leave it out: max_bad_files=1."
        raise DamagedFileError(f"{error}{omit}") from None
    except NoGoodFileError:
        if listed is None or not known.keys() >= {file.name for file in remaining}:
            raise
    if listed is not None and (remaining or bad):
        listed.add(remaining, bad, result.bad_files, model=compute_digest(model), out=mask_urls(str(out)))
    return result, source
