"""`dkernel train`: files in, one model file out."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from dkernel.cli.exit_codes import ExitCodeCommand
from dkernel.cli.help import in_options
from dkernel.cli.options import (
    DATA,
    FOLDER,
    WORD_OR_NUMBER,
    WRITTEN,
    bad_rows_option,
    combine,
    connect_arguments,
    count_bad_rows,
    exclude_option,
    file_arguments,
    format_options,
    label_option,
    model_setting,
    note_rejected,
    numbering_options,
    output_setting,
    overwrite_option,
    print_config,
    report_option,
    require_options,
    run_options,
    scratch_folders,
    scratch_option,
    setting,
    weight_option,
)
from dkernel.cli.outputs import check_model_path, check_outputs, check_report
from dkernel.cli.say import say
from dkernel.errors import mask_urls
from dkernel.leaf_table import load_leaf
from dkernel.model.parameters import PARAMETERS
from dkernel.numerics.resource_limits import format_bytes

if TYPE_CHECKING:
    from dkernel.cli.run_record import Record
    from dkernel.model.recipe import Recipe
    from dkernel.training.checkpoint import Checkpoint

RECIPE = {name: p for name, p in PARAMETERS.items() if name not in ("sampling", "rounds")}
"""The parameters of the recipe that have an option."""
_TEXT = ("kernel", "categorical", "formats", "local")  # of which a number is text too


recipe_options = combine(
    *(
        setting(
            f"--{name.replace('_', '-')}",
            help=p.text_of_option(),
            first=p.text_of_option(full=False),
            group=p.group,
            usual=p.usual,
            type=click.STRING if name in _TEXT else WORD_OR_NUMBER,
            multiple=name == "formats",
            metavar=p.metavar,
        )
        for name, p in RECIPE.items()
    )
)
"""An option for everything that decides a result."""
model_options = combine(
    label_option,
    output_setting("-o", "--out", type=WRITTEN, metavar="MODEL", usual=True, help="Model file to write. [required]"),
    overwrite_option(help="Replace an existing model."),
)
row_options = combine(
    exclude_option,
    weight_option,
    model_setting(
        "--eval-set", type=DATA, multiple=True, metavar="DATA", help="Files to judge by, in place of a holdout of DATA."
    ),
    scratch_option(
        help="Folder for copies of the data that every worker sees. Default: in --checkpoint, else beside --out; for "
        "rows that a worker stores, of cells or of sorted data, its local folder."
    ),
    bad_rows_option,
    format_options,
    numbering_options,
)
checkpoint_option = partial(setting, "--checkpoint", type=FOLDER, metavar="DIR", usual=True)
resume_option = setting("--resume", is_flag=True, usual=True, help="Continue from --checkpoint, if it holds anything.")


@click.command("train", cls=ExitCodeCommand, short_help="Train a model on files larger than memory.")
@click.argument("data", nargs=-1, type=DATA, metavar="DATA...")
@model_options
@recipe_options
@row_options
@checkpoint_option(help="Folder, or URL of one, in which progress is saved.")
@resume_option
@report_option(help="Write a page about the fit. Needs matplotlib.")
@model_setting(
    "--baselines",
    default="linear",
    metavar="off|linear|all",
    help="Compare with a linear model on the holdout; all: with boosted trees too (LightGBM). Default: linear.",
)
@setting("--dry-run", is_flag=True, usual=True, help="Print types, what to check and the plan, and stop.")
@setting("--detach", is_flag=True, help="Give the job to the cluster, print its name and end. See dkernel watch.")
@run_options
@click.pass_context
def train_command(ctx: click.Context, /, **values: Any) -> None:
    """Train a kernel machine on DATA (files, folders, globs or URLs) and write it to --out.

    The data are read piece by piece and need not fit in memory. What is not given is chosen on a sample.

    \b
    dkernel train data.parquet --label y -o model.safetensors
    dkernel train data/ --label price --task regress -o m.safetensors --workers 4
    """
    recipe = make_recipe(values)
    print_config(ctx, {**values, **settle_values(values, recipe)})
    check_pairs(ctx, values, recipe)
    require_options(ctx, values, ["data", "label"] if values["dry_run"] else ["data", "label", "out"])
    connection = connect_arguments(ctx, values)
    if values["dry_run"]:
        load_leaf("look", "dry_run", "--dry-run").print_look(values, recipe, connection)
        return
    if values["detach"]:
        _detach(ctx, values, connection)
        return
    from dkernel.cli.run_record import Record, default_record

    check_fit(values)
    from dkernel.inference.baselines import check as can_compare

    can_compare(values["baselines"])
    record = Record(values)
    with record.write_to(default_record(values["out"], values["record"])):
        from dkernel.training.fit import train

        lines = fit_files(values, recipe, connection, record, train)
    show_fit(values, record, lines)


def _detach(ctx: click.Context, values: Mapping[str, Any], connection: Mapping[str, Any]) -> None:
    driver, find_log = load_leaf("jobs", "driver", "--detach"), load_leaf("jobs", "follow", "--detach").find_log
    check_outputs()
    job = driver.submit(ctx, values, connection)
    name = mask_urls(job.record).removesuffix(".run.json")
    if values["json"]:
        click.echo(json.dumps({"job": name, "record": mask_urls(job.record), "log": mask_urls(find_log(job.record))}))
        return
    say(name)
    if not values["quiet"]:
        say(f"Follow it with dkernel watch {name}, end it with dkernel cancel {name}.", err=True)


def settle_values(values: Mapping[str, Any], recipe: "Recipe") -> dict[str, Any]:
    """The options of the recipe, without those that the data decide."""
    settled_values = {name: getattr(recipe, name) for name in RECIPE}
    if asked_loss(values) is None and recipe.task == "auto":
        settled_values["loss"] = None  # the label decides it
    if values["dtype"] is None:
        settled_values["dtype"] = None  # the first rows do
    return settled_values


def check_fit(values: Mapping[str, Any]) -> None:
    """Refuse, before any work, outputs that `values` could not or should not write after it."""
    check_outputs()
    if (checkpoint := make_checkpoint(values)) is not None:
        checkpoint.check()
    check_model_path(values, checkpoint is not None and checkpoint.holds_a_run)
    check_report(values["report"])


def asked_loss(values: Mapping[str, Any]) -> str | None:
    """The loss that --loss names; None where the task, the solver and the data decide it."""
    loss: str | None = values["loss"]
    return None if loss == "auto" else loss


def make_recipe(values: Mapping[str, Any]) -> "Recipe":
    """The recipe that the options ask for."""
    from dkernel.data.object_columns import check_gamma
    from dkernel.model.recipe import Recipe
    from dkernel.model.solver_table import loss_for

    values = {**values, "loss": asked_loss(values)}
    given = {name: values[name] for name in RECIPE if values[name] is not None}
    if loss := loss_for(given.get("solver", Recipe.solver)):
        given.setdefault("loss", loss)
    recipe = Recipe(**given)
    if "gamma" in given and "kernel" in given:
        check_gamma(recipe.kernels, recipe.gamma)
    return recipe


def make_checkpoint(values: Mapping[str, Any]) -> "Checkpoint | None":
    """The checkpoint that the options name."""
    from dkernel.training.checkpoint import Checkpoint

    if values["checkpoint"] is None:
        return None
    return Checkpoint(values["checkpoint"], values["resume"])


def open_rows(values: Mapping[str, Any], recipe: "Recipe", executor: Any = None) -> Any:
    """The source that the options name; workers of the executor may see files that this process does not."""
    from dkernel.streaming.open_files import open_files

    kind, column = recipe.division or ("", "")
    divided, excluded = (column,) if column else (), values["exclude"] or ()
    return open_files(
        list(values["data"]),
        executor,
        label=values["label"],
        weight=values["weight"],
        keep=divided,
        time_column=column if kind == "time" and column not in excluded else None,
        dtype=recipe.dtype if values["dtype"] else "auto",
        kernel=recipe.kernels[0],
        categorical=recipe.categorical,
        missing=recipe.missing,
        dates=recipe.dates,
        formats=recipe.formats,
        max_bad_rows=values["max_bad_rows"],
        label_as=_label_as(recipe),
        **file_arguments({**values, "exclude": [name for name in excluded if name not in divided]}),
    )


def _label_as(recipe: "Recipe") -> str:
    """What a label of texts that are numbers is for the task of a recipe, as in `open_source`."""
    from dkernel.losses.losses import parse_loss

    if parse_loss(recipe.loss).predicts_numbers(recipe.task):
        return "numbers"
    return "classes" if recipe.task == "classify" else "auto"


def check_pairs(ctx: click.Context, values: Mapping[str, Any], recipe: "Recipe") -> None:
    """Refuse options of `train` and `tune` that do not go together."""
    if values["resume"] and values["checkpoint"] is None:
        raise click.UsageError("--resume continues a checkpoint: give --checkpoint DIR too.", ctx)
    if values["eval_set"] and recipe.division is not None:
        raise click.UsageError(
            "--eval-set holds the rows to judge by, and --holdout-by takes them from DATA: give one.", ctx
        )


def _read_eval_rows(values: Mapping[str, Any], executor: Any, source: Any, recipe: "Recipe") -> Any:
    """Read --eval-set as the rows of the source are read; a uniform sample if they are many."""
    from dkernel.data.encoded_columns import reading_arguments
    from dkernel.data.writers.collisions import find_in_both
    from dkernel.errors import DataError
    from dkernel.solvers.sizes import MOST_HOLDOUT
    from dkernel.streaming.open_files import open_files
    from dkernel.streaming.row_weights import count_weighted, read_sample

    judges = open_files(
        list(values["eval_set"]),
        executor,
        label=values["label"],
        weight=values["weight"],
        columns=source.table_columns,
        dtype=source.dtype,
        kernel=recipe.kernels[0],
        **reading_arguments(source.reading),
        label_as="text" if source.label_kind == "text" else "numbers",
        **file_arguments(values),
    )
    if both := find_in_both(judges.files, source.files):
        raise DataError(f"{both} is among DATA and --eval-set: rows that are learned from do not judge. Give others.")
    return read_sample(count_weighted(judges, executor), executor, MOST_HOLDOUT, recipe.seed)


def open_for(values: Mapping[str, Any], recipe: "Recipe", executor: Any = None) -> tuple[Any, "Recipe"]:
    """The source that the options name, and the recipe for its label."""
    source = open_rows(values, recipe, executor)
    if source.dtype == "float64":
        recipe = recipe.replace(dtype="float64")
    return source, _for_label(values, recipe, source.label_kind)


def _for_label(values: Mapping[str, Any], recipe: "Recipe", kind: str | None) -> "Recipe":
    """The recipe for a label of this kind: squared loss if it is floating and no option asks for classes."""
    if kind == "float" and recipe.task == "auto" and asked_loss(values) is None:
        return recipe.replace(loss="squared")
    return recipe


def show_fit(values: Mapping[str, Any], record: "Record", lines: Sequence[str]) -> None:
    """Print the summary of a fit, below rows, seconds and memory; or the record as JSON."""
    if values["json"]:
        click.echo(json.dumps(record.summary()))
    elif not values["quiet"]:
        facts = record.facts
        peak, worker = (facts.get(f"{whose}peak_memory_bytes", 0) for whose in ("", "worker_"))
        memory = f"client {format_bytes(peak)}, workers up to {format_bytes(worker)}" if worker else format_bytes(peak)
        head = f"{facts['model']}: {facts['rows']:,} rows in {record.seconds['train']:.1f} s, peak memory {memory}"
        say("\n".join([head, *lines]))


def with_options(told: Any) -> Any:
    """A summary, or a look, whose checks name the options of `dkernel train`."""
    return replace(told, checks={name: in_options(text, train_command) for name, text in told.checks.items()})


def fit_files(
    values: Mapping[str, Any],
    recipe: "Recipe",
    connection: Mapping[str, Any],
    record: "Record",
    fit: Callable[..., Any],
) -> list[str]:
    """Open the files, fit, write the model and the page about it: the lines of its summary.

    Parameters
    ----------
    fit : (source, recipe, executor, ...) -> TrainResult
    """
    from dkernel.cli.run_record import open_run
    from dkernel.inference.summary import FitSummary
    from dkernel.model.model_file import save

    record.note(paths=list(values["data"]), label=values["label"], recipe=recipe.to_dict())
    with open_run(record, values, connection) as (progress, executor):
        opened = partial(open_rows, executor=executor)
        with record.phase("open"), count_bad_rows(opened, values, recipe):
            source, recipe = open_for(values, recipe, executor)
        record.note(recipe=recipe.to_dict(), recipe_sha256=recipe.digest)
        record.note(input_fingerprint=source.fingerprint, rows=source.n_rows, **note_rejected(source))
        with record.phase("train"), count_bad_rows(opened, values, recipe):
            result = fit(
                source,
                recipe,
                executor,
                progress=progress,
                scratch=scratch_folders(values),
                checkpoint=make_checkpoint(values),
                validation=partial(_read_eval_rows, values, executor) if values["eval_set"] else None,
            )
        with record.phase("save"):
            digest = save(result.model, values["out"])
    record.note(model=str(values["out"]), model_sha256=digest, sample_path=result.sample_path)
    record.note(chosen=result.chosen, facts=result.model.facts, plan=result.plan, history=result.history)
    with record.phase("baselines"):
        summary = with_options(FitSummary.of(result, values.get("baselines", "linear")))
    record.note(resumed_from=result.resumed, form=summary.model, judged=summary.judged)
    if values["report"]:
        write = load_leaf("report", "report", "--report").write
        with record.phase("report"):
            record.write_report(values["report"], partial(write, result=result, summary=summary))
    return list(summary.lines(values["verbose"]))
