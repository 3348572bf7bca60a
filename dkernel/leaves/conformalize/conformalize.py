"""`dkernel conformalize`: intervals, or sets of classes, by other rows than those that the fit left out."""

from collections.abc import Iterator, Mapping
from typing import Any

import click

from dkernel.cli.exit_codes import ExitCodeCommand
from dkernel.cli.labelled_rows import labelled_options, open_labelled, rewrite_model
from dkernel.cli.options import DATA, READ, group_option, out_option, overwrite_option, run_options


@click.command("conformalize", cls=ExitCodeCommand, short_help="Let other rows say how sure a model is.")
@click.argument("model", required=False, type=READ, metavar="MODEL")
@click.argument("data", nargs=-1, type=DATA, metavar="DATA...")
@out_option
@group_option(help="Column of the groups that `score --group` may then ask for; no feature needs to be of it.")
@labelled_options
@overwrite_option(help="Replace an existing model.")
@run_options
@click.pass_context
def conformalize_command(ctx: click.Context, /, **values: Any) -> None:
    """Write MODEL with the conformity scores of the labelled rows DATA, which it has not learned from, as --out.

    Its intervals, or sets of classes, then cover rows that are drawn as DATA is, and with --group each group of them.
    Nothing is fitted again. Up to 65,536 rows, a uniform sample, are used.

    \b
    dkernel conformalize model.safetensors known.parquet --group site --out model-2.safetensors
    dkernel score model-2.safetensors new.parquet --write score,interval --group site --out scores.parquet
    """
    group = values["group"]

    def change(model: Any, progress: Any, executor: Any) -> tuple[Any, Any, dict[str, Any]]:
        from dkernel.leaves.conformalize.conformity import conformalize_model

        source = open_labelled(values, model, executor, keep=() if group is None else (group,))
        progress.phase("conformity scores", source.n_rows)
        model = conformalize_model(model, source, executor, group, progress)
        facts = {"rows": model.facts["conformal"]["rows"], "groups": list(model.known_conformal().groups)}
        return model, source, facts

    def describe(model: Any, facts: Mapping[str, Any]) -> Iterator[str]:
        what = "intervals" if model.classes is None else "sets of classes"
        groups = f" of {len(facts['groups'])} groups" if facts["groups"] else ""
        yield f"{values['out']}: {what} by {facts['rows']:,} rows{groups}"

    rewrite_model(ctx, values, change, describe)
