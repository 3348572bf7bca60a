"""Batch scoring: computes the scores of every row of a source, and writes them to an output that appears as a whole.

    rows out + rows rejected = rows in, in their order, the kept columns untouched:
    kept ..., label, probability of a class

One part per reading unit. A task reads a unit, scores it block by block and writes the part itself; only the part's
record comes back, so the client holds no rows. A task does so with many small units, one after the other. Every worker
has its next tasks before it has ended this one.
"""

import hashlib
import json
import os
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import Any

import pyarrow as pa
from dask.local import get_sync

from dkernel.data.block import Block
from dkernel.data.encoding.unseen import Counted, UnseenValues
from dkernel.data.rejected_rows import describe_bad_rows
from dkernel.data.source import Source, Unit
from dkernel.data.usable_files import check_bad_files
from dkernel.data.writers.collisions import Location, check_apart
from dkernel.data.writers.destination import Destination, Staging
from dkernel.data.writers.manifest import InputFacts, Manifest, OutputPart, PartWriter, sum_filled
from dkernel.errors import DamagedFileError, DataError, TooLargeError
from dkernel.inference.drift import Drifted, find_drift, measure_moments, warn_of_drift
from dkernel.inference.score_columns import Written, check_written, output_columns, rows_too_large, tables
from dkernel.model.model import Model
from dkernel.model.model_file import compute_digest
from dkernel.numerics.threads import one_blas_thread
from dkernel.streaming.execution.base import Call, Executor, Handle
from dkernel.streaming.execution.in_task import import_ahead
from dkernel.streaming.read_groups import Task, group_units

import_ahead(__name__)


@dataclass(frozen=True)
class ScoreResult:
    """Result of a scoring run.

    Parameters
    ----------
    rows : rows of the output
    parts : parts it was made of
    reused : parts that an earlier, interrupted run had finished
    skipped : the output was there already, complete; nothing was done
    rejected : rows of the input that are not in the output
    rejects : the file that lists them, None if there are none
    filled : values of the input that training never saw: "missing" or "unknown" -> column -> how many
    bad_files : files of the input that were left out, with the reasons
    drifted : columns whose values are not those of the training, with the figures that differ

    Examples
    --------
    >>> ScoreResult(1000, 2, "scores").skipped
    False
    """

    rows: int
    parts: int
    path: str
    columns: tuple[str, ...] = ()
    reused: int = 0
    skipped: bool = False
    rejected: int = 0
    rejects: str | None = None
    filled: Counted = field(default_factory=dict)
    bad_files: Mapping[str, str] = field(default_factory=dict)
    drifted: Drifted = field(default_factory=dict)

    @property
    def rows_in(self) -> int:
        """Rows of the input."""
        return self.rows + self.rejected


def write_scores(
    model: Model,
    source: Source,
    out: str | os.PathLike[str],
    executor: Executor,
    *,
    write: Sequence[str] | Written | None = None,
    overwrite: bool = False,
    max_bad_rows: int = 0,
    max_bad_files: int = 0,
    progress: Any = None,
    partition_by: Sequence[str] = (),
) -> ScoreResult:
    """Score the rows of `source` into `out`; parts that an interrupted run of the same job finished are taken over.

    Parameters
    ----------
    source : opened with the model's columns; its kept columns are carried to the output
    out : a file (.parquet, .csv, .npy), a .zarr group, or a folder of Parquet parts
    write : of WORDS; the label and one probability when None, where the model has none the score. `check_written` has
        the coverage of intervals and sets too
    max_bad_rows : rows that may be left out, of a source that was opened with `quarantine`; with one more the run
        ends with a DataError that shows the first ten
    max_bad_files : files that may be left out, those that `source` lacks among them: one whose middle turns out to be
        damaged is left out whole
    progress : gets the rows as they are written (streaming/progress.py)
    partition_by : kept columns by whose values a folder is divided, year=2020/part-00000.parquet
    """
    written = write if isinstance(write, Written) else check_written(model, write)
    columns = output_columns(model, source.kept, written)
    units = [unit for unit in source.units if sum(unit.rows)] or list(source.units[:1])
    if not units:
        raise DataError("There are no rows to score: every file of the input is empty.")
    destination = Destination(out, overwrite, partition_by)
    replaced = [Location(path, "the output") for path in (destination.path, *destination.companions())]
    check_apart([Location(name, "of the rows to score") for name in source.files], replaced)
    if "label" in written.words and model.classes is not None:
        destination.format.check(pa.schema({"label": pa.from_numpy_dtype(model.classes.dtype)}))
    name = compute_digest(model)
    job = {
        "input": source.fingerprint,
        "model": name,
        "columns": json.dumps(columns),
        # A release that cuts the same files elsewhere must not take over the parts of another.
        "layout": hashlib.sha256(json.dumps([source.dtype, [u.rows for u in units]]).encode()).hexdigest(),
    }
    job |= {"coverage": written.text} if written.text else {}
    job |= {"partition_by": json.dumps(list(partition_by))} if partition_by else {}
    # Files that the source lacks were allowed when it was opened.
    allowed = _Limits(max_bad_rows, max(max_bad_files, len(source.bad_files)), source.bad_files)
    done = destination.complete(job)
    if done is not None:
        check_bad_files(done.facts.bad_files, allowed.files, _good_files(units, done.facts.bad_files))
        return _check_rejections(_result(destination, done, units, columns, skipped=True), max_bad_rows)
    with destination.stage(job) as staging:
        parts = staging.finished([sum(unit.rows) for unit in units])
        reused = len(parts)
        try:
            with one_blas_thread():
                run = _Run(executor, model, name, written, source.kept, source.row_bytes, progress)
                bad_files = run.fill(staging, units, parts, allowed)
            if not any(part.rows for part in parts.values()) and _count_rejected(parts):
                raise DataError(_refusal(staging, parts, "every row of the input is bad"))
        except DataError:
            staging.discard()
            raise
        in_order = [parts[index] for index, unit in enumerate(units) if unit.name not in bad_files]
        moments = [part.seen["moments"] for part in in_order if "moments" in part.seen]
        facts = InputFacts(sum_filled(in_order), bad_files, find_drift(model, moments))
        manifest = staging.commit(in_order, columns, facts)
    return _result(destination, manifest, units, columns, reused)


def _check_rejections(there: ScoreResult, max_bad_rows: int) -> ScoreResult:
    """The result that is there already, unless it lacks more rows than this run may."""
    if there.rejected > max_bad_rows:
        raise DataError(
            f"{there.path} already exists, without the {there.rejected} bad rows of {there.rejects}, and "
            f"{max_bad_rows} are allowed: allow them, or choose another name."
        )
    return there


def _result(
    destination: Destination,
    manifest: Manifest,
    units: Sequence[Unit],
    columns: tuple[str, ...],
    reused: int = 0,
    skipped: bool = False,
) -> ScoreResult:
    listed = None if manifest.rejects is None else destination.home.path(manifest.rejects.name)
    unseen = UnseenValues(manifest.rows, manifest.facts.filled)
    unseen.warn()
    warn_of_drift(manifest.facts.drifted)
    return ScoreResult(
        manifest.rows,
        sum(unit.name not in manifest.facts.bad_files for unit in units),
        destination.path,
        columns,
        reused,
        skipped,
        manifest.rejected,
        listed,
        unseen.filled,
        manifest.facts.bad_files,
        manifest.facts.drifted,
    )


def _count_rejected(parts: Mapping[int, OutputPart]) -> int:
    return sum(part.rejected for part in parts.values())


def _limit_rejected(staging: Staging, parts: dict[int, OutputPart], allowed: int) -> None:
    if _count_rejected(parts) > allowed:
        raise DataError(_refusal(staging, parts, f"and max_bad_rows={allowed} allows no more"))


def _refusal(staging: Staging, parts: dict[int, OutputPart], why: str) -> str:
    in_order = [parts[index] for index in sorted(parts)]
    advice = "Correct or remove these rows, or omit and list them."
    return describe_bad_rows(staging.rejected(in_order), _count_rejected(parts), why, advice)


@dataclass(frozen=True)
class _Limits:
    """How many bad rows and bad files a run may leave out, and the files that are known to be bad."""

    rows: int
    files: int
    bad_files: Mapping[str, str]


@dataclass(frozen=True)
class _Run:
    """The parts of a job through an executor."""

    executor: Executor
    model: Model
    name: str
    written: Written
    kept_columns: tuple[str, ...]
    row_bytes: int
    progress: Any

    def fill(
        self, staging: Staging, units: Sequence[Unit], parts: dict[int, OutputPart], allowed: _Limits
    ) -> dict[str, str]:
        """Add to `parts` every part that is missing, as they come; the files that are bad, with the reasons."""
        _limit_rejected(staging, parts, allowed.rows)
        progress, damaged = self.progress, dict[int, str]()
        missing = [index for index in range(len(units)) if index not in parts]
        if progress is not None:
            if parts:
                progress.message(f"{len(parts)} of {len(units)} parts are reused from a stopped run.")
            progress.phase("score", sum(sum(units[index].rows) for index in missing))
        model = self.executor.keep(self.model, f"dkernel-model-{self.name}")
        read: dict[int, Handle] = {}

        def calls() -> Iterator[Call]:
            # Writing a file is no pure function of the arguments: another run must not be given this one's record, so
            # the key is this run's own.
            token = uuid.uuid4().hex
            for group in group_units([units[index] for index in missing], self.row_bytes):
                # Calls that have begun end before the run does, so no call writes to a folder that was removed.
                if _count_rejected(parts) > allowed.rows or len(_bad_files(units, damaged, allowed)) > allowed.files:
                    return
                numbers = missing[group.start : group.stop]
                function, blocks = self._make_call([units[index] for index in numbers])
                if isinstance(blocks, Handle):
                    read[numbers[0]] = blocks
                writers = [staging.part_writer(index, units[index].n_rows) for index in numbers]
                args = (model, blocks, self.written, self.kept_columns, allowed.files > 0, writers)
                yield Call(f"dkernel-score-{token}-{numbers[0]}", function, args)

        try:
            with closing(self.executor.as_they_come(calls())) as records:
                for record in records:
                    parts.update((part.index, part) for part in record if not part.damaged)
                    damaged |= {part.index: part.damaged for part in record if part.damaged}
                    if record[0].index in read:
                        self.executor.release([read.pop(record[0].index)])
                    if progress is not None:
                        progress.advance(sum(part.rows + part.rejected for part in record))
        finally:
            self.executor.release([model, *read.values()])
        _limit_rejected(staging, parts, allowed.rows)
        bad = _bad_files(units, damaged, allowed)
        if damaged:
            check_bad_files(bad, allowed.files, _good_files(units, bad))
        return bad

    def _make_call(self, units: Sequence[Unit]) -> tuple[Callable[..., list[OutputPart]], Any]:
        """The function that scores a group of units, and the arguments for their blocks.

        Where one task reads a unit the task that scores it does it, else (arrays that other tasks make; such a unit is
        a group alone) the executor.
        """
        graphs = [dict(unit.task.__dask_graph__()) for unit in units]
        if all(len(graph) == 1 for graph in graphs):
            return score_units, [(graph, unit.task.key) for graph, unit in zip(graphs, units, strict=True)]
        _, [handle] = self.executor.compute((), [unit.task for unit in units])
        return score_read_blocks, handle


def _bad_files(units: Sequence[Unit], damaged: Mapping[int, str], allowed: _Limits) -> dict[str, str]:
    """The files that are bad, each with the reason that its first damaged unit has."""
    bad = dict(allowed.bad_files)
    for index in sorted(damaged):
        bad.setdefault(units[index].name, damaged[index])
    return bad


def _good_files(units: Sequence[Unit], bad: Mapping[str, str]) -> int:
    return len({unit.name for unit in units} - {*bad})


def score_units(
    model: Model,
    tasks: Sequence[Task],
    written: Written,
    kept_columns: Sequence[str],
    may_be_damaged: bool,
    writers: Sequence[PartWriter],
) -> list[OutputPart]:
    """Read units one after the other and score each; runs on a worker.

    Blocks that are handed from task to task are in new pages for every unit, and to be given those takes longer than
    to read.
    """
    parts = []
    for task, writer in zip(tasks, writers, strict=True):
        try:
            parts.append(score_part(model, get_sync(*task), written, kept_columns, writer, partial(_without, *task)))
        except DamagedFileError as error:
            if not may_be_damaged:
                raise
            parts.append(OutputPart(writer.index, 0, 0, "", damaged=str(error)))
    return parts


def score_read_blocks(
    model: Model,
    blocks: Sequence[Block],
    written: Written,
    kept_columns: Sequence[str],
    _: bool,
    writers: Sequence[PartWriter],
) -> list[OutputPart]:
    """Score the blocks that other tasks have made of one unit; runs on a worker."""
    return [score_part(model, blocks, written, kept_columns, writer) for writer in writers]


def score_part(
    model: Model,
    blocks: Sequence[Block],
    written: Written,
    kept_columns: Sequence[str],
    writer: PartWriter,
    without: Callable[[Sequence[int], str], Sequence[Block]] | None = None,
) -> OutputPart:
    """Score the blocks of one unit and write them as one part; runs on a worker.

    Parameters
    ----------
    without : reads the blocks again without some of their rows, which are then among the refused ones; the reason of
        all of them is the last argument. It is called where rows have no finite answers
    """

    def write(blocks: Sequence[Block]) -> OutputPart:
        refused = [block.refused for block in blocks if block.refused is not None]
        listed = pa.concat_tables(refused) if refused else None
        seen = {"filled": _unseen(model, blocks), "moments": measure_moments(model, blocks)}
        seen = {name: counts for name, counts in seen.items() if counts}
        return writer.write(tables(model, blocks, written, kept_columns), listed, seen)

    try:
        return write(blocks)
    except TooLargeError as error:
        if without is None:
            raise
        again = without(rows_too_large(model, blocks, written), error.reason)
    return write(again)


def _unseen(model: Model, blocks: Sequence[Block]) -> Counted:
    unseen = (UnseenValues.of(model.reading, block.marks, 0) for block in blocks)
    return reduce(UnseenValues.merge, unseen, UnseenValues()).counts


def _without(graph: Mapping[str, Any], key: str, rows: Sequence[int], reason: str) -> Sequence[Block]:
    read, *arguments = graph[key]
    return read(*arguments, rows, reason)  # type: ignore[no-any-return]
