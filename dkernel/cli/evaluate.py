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
        if drawn and values["importance"]:
            from dkernel.inference.importance import importances

            model.layout.require_numbers("--importance", "Leave it out.")
            figures["importance"] = importances([(model, drawn)])
    record.note(input_fingerprint=source.fingerprint, rows_out=0, **note_rejected(source))
    record.note(figures=figures)
    if values["report"]:
        write = load_leaf("report", "report", "--report").write_test
        record.write_report(values["report"], partial(write, model=model, rows=drawn))
    return figures


def _lines(figures: Mapping[str, Any]) -> Iterator[str]:
    from dkernel.data.encoding.unseen import describe_counts
    from dkernel.model.wording import format_of_rows, format_share, format_with_error

    n = figures["n"]
    for name, value in figures.items():
        if name == "per_class":
            yield from _table(value)
        elif name == "filled":
            yield from describe_counts(value)
        elif name == "training":
            rows = value["rows"]
            said = ", ".join(f"{each} {format_of_rows(each, value[each], rows)}" for each in value if each != "rows")
            yield f"{'in training':<17} {said} on {rows:,} rows left out"
        elif name == "far":
            share, rows = value["share"], value["rows"]
            known = [(figure, value[figure]) for figure in ("error", "rmse") if figure in value]
            there = "".join(f" ({each} there: {format_of_rows(each, of, rows * share)})" for each, of in known)
            yield f"{name:<17} {format_share(share, rows)} of the rows are unlike any row of the training{there}"
        elif name == "importance":
            what = "accuracy" if "accuracy" in figures else "r2"
            yield f"{name:<17} what it costs of the {what} to shuffle a column, on {value['rows']:,} rows"
            for column, lost in value["columns"].items():
                yield f"{'':<17} {column}: {format_with_error(lost['mean'], lost['deviation'])}"
        elif name in ("interval", "set"):
            covered, asked = format_share(value["covered"], n), f"{100 * value['coverage']:g} % asked"
            what, words = ("width", "wide") if name == "interval" else ("size", "classes")
            size = f"{format_of_rows(what, value[what], n)} {words}"
            yield f"{name:<17} holds the label in {covered} of the rows ({asked}), {size} on average"
        elif value is not None and name != "drifted":  # which a warning has
            yield f"{name:<17} {format_of_rows(name, value, n)}"


def _table(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    from dkernel.model.wording import format_of_rows

    cells = [["class", "n", "precision", "recall"]]
    cells += [
        [repr(row["label"]), *(format_of_rows(name, row[name], row["n"]) for name in cells[0][1:])] for row in rows
    ]
    yield from align_columns(cells, right=True)
