"""`dkernel update`: a model with more rows, without the fit of its old ones."""

from collections.abc import Iterator, Mapping
from typing import Any

import click

from dkernel.cli.exit_codes import ExitCodeCommand
from dkernel.cli.labelled_rows import labelled_options, open_labelled, rewrite_model
from dkernel.cli.options import DATA, READ, out_option, overwrite_option, run_options, setting


@click.command("update", cls=ExitCodeCommand, short_help="Teach a model more rows.")
@click.argument("model", required=False, type=READ, metavar="MODEL")
@click.argument("data", nargs=-1, type=DATA, metavar="NEW...")
@out_option
@setting(
    "--old", type=DATA, multiple=True, metavar="OLD", help="Rows of the training, all or a sample; grids need some."
)
@labelled_options
@overwrite_option(help="Replace an existing model.")
@run_options
@click.pass_context
def update_command(ctx: click.Context, /, **values: Any) -> None:
    """Write MODEL, after it has learned the labelled rows NEW, as --out.

    Scaling, kernel and settings stay. Cells that new rows touch learn them, and are divided where they grow too large.
    Grids take one more sweep, held by rows of --old. A model without a local stage learns as partial_fit.
    New rows are held in memory; train again where they are many, or differ.

    \b
    dkernel update model.safetensors new.parquet --out model-2.safetensors
    dkernel update model.safetensors new.parquet --old train.parquet --out model-2.safetensors
    """

    def change(model: Any, progress: Any, executor: Any) -> tuple[Any, Any, dict[str, Any]]:
        from dkernel.inference.drift import find_learned_drift, measure_moments
        from dkernel.training.update import MOST_OLD, rows_in, update_model

        source = open_labelled(values, model, executor)
        progress.phase("read new rows", source.n_rows)
        new, unseen = rows_in(source, executor, model, progress=progress)
        unseen.warn()
        drifted = find_learned_drift(model, [measure_moments(model, [new])], unseen)
        old = None
        if values["old"]:
            before = open_labelled(values, model, executor, values["old"])
            progress.phase("read old rows", before.n_rows)
            old, _ = rows_in(before, executor, model, MOST_OLD, progress)
        progress.phase("update")
        model = update_model(model, new, executor, old)
        local = "no local stage" if model.local is None else model.local.kind
        facts = {"new": len(new.X), "rows": model.facts["rows"], "updates": model.facts["updates"], "local": local}
        told = {"filled": unseen.filled, "drifted": drifted}
        return model, source, facts | {name: found for name, found in told.items() if found}

    def describe(_: Any, facts: Mapping[str, Any]) -> Iterator[str]:
        from dkernel.data.encoding.unseen import describe_counts
        from dkernel.inference.drift import describe as describe_drift

        yield f"{values['out']}: {facts['new']:,} new rows, {facts['rows']:,} in all, {facts['local']}"
        yield from describe_counts(facts.get("filled", {}))
        yield from (f"other values than in training: {line}" for line in describe_drift(facts.get("drifted", {})))

    rewrite_model(ctx, values, change, describe)
