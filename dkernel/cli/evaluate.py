"""`dkernel evaluate`: measures of a model on labelled files."""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from dkernel.cli.exit_codes import ExitCodeCommand
from dkernel.cli.labelled_rows import labelled_options, open_labelled
from dkernel.cli.options import (
    DATA,
    READ,
    connect_arguments,
    count_bad_rows,
    coverage_option,
    note_rejected,
    output_setting,
    print_config,
    report_option,
    require_options,
    run_options,
)
from dkernel.cli.outputs import check_outputs, check_report
from dkernel.cli.say import say
from dkernel.cli.tables import align_columns
from dkernel.leaf_table import load_leaf

if TYPE_CHECKING:
    from dkernel.cli.run_record import Record


@click.command("evaluate", cls=ExitCodeCommand, short_help="Measure a model on labelled files.")
@click.argument("model", required=False, type=READ, metavar="MODEL")
@click.argument("data", nargs=-1, type=DATA, metavar="DATA...")
@labelled_options
@report_option(help="Write a page with pictures. Needs matplotlib.")
@output_setting("--importance", is_flag=True, help="Print what shuffling each column costs of the accuracy or R².")
@coverage_option
@run_options
@click.pass_context
def evaluate_command(ctx: click.Context, /, **values: Any) -> None:
    """Measure MODEL on the labelled rows of DATA: files, folders, globs or URLs.

    Classification: accuracy, error, balanced_accuracy, auc and average_precision (two classes), log_loss, precision and
    recall of each class. Regression: rmse, mae and r2. Both: the share of the rows that intervals, or sets of classes,
    cover, and how large these are. Of landmarks also the share of rows that are far from those of the training, with
    their error.

    \b
    dkernel evaluate model.safetensors test.parquet --label y
    dkernel evaluate model.safetensors 'test/*.csv' --label y --json | jq .accuracy
    """
    print_config(ctx, values)
    require_options(ctx, values, ["model", "data"])
    connection = connect_arguments(ctx, values)
    from dkernel.cli.run_record import Record

    check_outputs()
    check_report(values["report"])
    record = Record(values)
    with record.write_to(values["record"]):
        figures = _evaluate(values, connection, record)
    # Its result is what the command is for, so --quiet leaves it.
    if values["json"]:
        click.echo(json.dumps(figures))
    else:
        say("\n".join(_lines(figures)))


def _evaluate(values: Mapping[str, Any], connection: Mapping[str, Any], record: "Record") -> dict[str, Any]:
    from dkernel.cli.run_record import open_model, open_run
    from dkernel.inference.drift import warn_of_drift
    from dkernel.inference.evaluate import evaluate_model as run
    from dkernel.solvers.sizes import MOST_HOLDOUT
    from dkernel.streaming.row_weights import read_sample

    model = open_model(values, record)
    with open_run(record, values, connection) as (progress, executor):
        opened = partial(open_labelled, executor=executor)
        with count_bad_rows(opened, values, model):
            source = opened(values, model)
            figures = run(model, source, executor, progress, values["coverage"])
            warn_of_drift(figures.get("drifted", {}), "")
            if left_out := model.facts.get("holdout"):
                names = [name for name in ("accuracy", "rmse") if name in left_out and name in figures]
                figures["training"] = {name: left_out[name] for name in [*names, "rows"]}
        if rejected := note_rejected(source)["rows_rejected"]:
            figures["rejected"] = rejected
        uses_rows = values["report"] or values["importance"]
        drawn = read_sample(source, executor, MOST_HOLDOUT) if uses_rows else None
        if values["importance"]:
            figures["importance"] = _importance(model, drawn)
    record.note(input_fingerprint=source.fingerprint, rows_out=0, **note_rejected(source))
    record.note(figures=figures)
    if values["report"]:
        write = load_leaf("report", "report", "--report").write_test
        record.write_report(values["report"], partial(write, model=model, rows=drawn))
    return figures


def _importance(model: Any, rows: Any) -> dict[str, dict[str, float]]:
    """Column -> what its shuffles cost, their mean and deviation, the largest first."""
    from dkernel.inference.importance import importances

    model.layout.require_numbers("--importance", "Leave it out.")
    figures = importances(model, rows)
    order = sorted(figures, key=lambda name: (-figures[name][0], name))
    return {name: dict(zip(("mean", "deviation"), figures[name], strict=True)) for name in order}


def _lines(figures: Mapping[str, Any]) -> Iterator[str]:
    from dkernel.data.encoding.unseen import describe_counts

    for name, value in figures.items():
        if name == "per_class":
            yield from _table(value)
        elif name == "filled":
            yield from describe_counts(value)
        elif name == "training":
            said = ", ".join(f"{figure} {_text(part)}" for figure, part in value.items() if figure != "rows")
            yield f"{'in training':<17} {said} on {value['rows']:,} rows left out"
        elif name == "far":
            there = f" (error there: {100 * value['error']:.3g} %)" if "error" in value else ""
            there = f" (rmse there: {_text(value['rmse'])})" if "rmse" in value else there
            yield f"{name:<17} {100 * value['share']:.3g} % of the rows are unlike any row of the training{there}"
        elif name == "importance":
            for i, (column, lost) in enumerate(value.items()):
                yield f"{'' if i else name:<17} {column}: {lost['mean']:.3g} ± {lost['deviation']:.1g}"
        elif name in ("interval", "set"):
            covered, asked = 100 * value["covered"], 100 * value["coverage"]
            size = f"{_text(value['width'])} wide" if name == "interval" else f"{_text(value['size'])} classes named"
            yield f"{name:<17} holds the label in {covered:.3g} % of the rows ({asked:.3g} % asked), {size} on average"
        elif value is not None and name != "drifted":  # which a warning has
            yield f"{name:<17} {_text(value)}"


def _table(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    cells = [["class", "n", "precision", "recall"]]
    cells += [[repr(row["label"]), *(_text(row[name]) for name in cells[0][1:])] for row in rows]
    yield from align_columns(cells, right=True)


def _text(value: Any) -> str:
    if value is None:
        return "-"
    from dkernel.model.wording import format_number

    return format_number(value) if isinstance(value, float) else f"{value:,}"
