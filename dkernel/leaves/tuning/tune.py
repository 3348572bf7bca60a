"""`dkernel tune`: files in, a search over candidates, one model file out."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from dkernel.cli.exit_codes import ExitCodeCommand
from dkernel.cli.options import (
    DATA,
    WORD_OR_NUMBER,
    connect_arguments,
    model_setting,
    print_config,
    report_option,
    require_options,
    run_options,
)
from dkernel.cli.tables import align_columns
from dkernel.cli.train import (
    asked_loss,
    check_fit,
    check_pairs,
    checkpoint_option,
    fit_files,
    make_recipe,
    model_options,
    recipe_options,
    resume_option,
    row_options,
    settle_values,
    show_fit,
)

if TYPE_CHECKING:
    from dkernel.cli.run_record import Record
    from dkernel.model.recipe import Recipe

SHOWN_CANDIDATES = 10  # lines of the leaderboard; all of them are in the run record


@click.command("tune", cls=ExitCodeCommand, short_help="Search over kernels, gammas, alphas, ... and train the best.")
@click.argument("data", nargs=-1, type=DATA, metavar="DATA...")
@model_options
@model_setting(
    "--budget",
    default="2passes",
    usual=True,
    metavar="Npasses|TIME",
    help="Limit of the search: 5passes over the data, or 90s, 10min, 2h. Default: 2passes.",
)
@model_setting(
    "--grid",
    multiple=True,
    usual=True,
    metavar="NAME=VALUE|...",
    help="Values of one parameter; can be repeated. gamma, metric and alpha have a default grid.",
)
@recipe_options
@row_options
@checkpoint_option(help="Folder, or URL of one, in which every rung is saved.")
@resume_option
@report_option(help="Write a page about search and fit. Needs matplotlib.")
@run_options
@click.pass_context
def tune_command(ctx: click.Context, /, **values: Any) -> None:
    """Search for the best settings on DATA by successive halving, train with them, and write the model to --out.

    \b
    dkernel tune data/ --label y -o m.safetensors --budget 10min --grid 'gamma=auto|4*median|0.5'

    Parameters: kernel, gamma (numbers, or multiples: 2*auto, 4*median), metric, scale, features, landmarks,
    n_components, loss, alpha.
    """
    recipe = make_recipe(values)
    print_config(ctx, {**values, **settle_values(values, recipe)})
    require_options(ctx, values, ["data", "label", "out"])
    check_pairs(ctx, values, recipe)
    connection = connect_arguments(ctx, values)
    from dkernel.cli.run_record import Record, default_record
    from dkernel.leaves.tuning.search_space import Budget

    budget, grid = Budget.of(values["budget"]), _grid(values["grid"])
    check_fit(values)
    record = Record(values)
    with record.write_to(default_record(values["out"], values["record"])):
        lines = _tune(values, recipe, grid, budget, connection, record)
    show_fit(values, record, [*lines, *_leaderboard(record)])


def _grid(texts: Sequence[str]) -> dict[str, list[Any]]:
    """NAME=VALUE|VALUE of each --grid."""
    from dkernel.errors import RecipeError

    grid: dict[str, list[Any]] = {}
    for text in texts:
        name, _, values = text.partition("=")
        name = name.strip().replace("-", "_")
        axis = [WORD_OR_NUMBER.convert(value.strip(), None, None) for value in values.split("|") if value.strip()]
        if not axis or name in grid:
            what = "comes twice" if name in grid else "holds no values"
            raise RecipeError(f"--grid {text!r} {what}. Write each axis once: --grid 'gamma=0.1|1|10'.")
        grid[name] = axis
    return grid


def _tune(
    values: Mapping[str, Any],
    recipe: "Recipe",
    grid: Mapping[str, Any],
    budget: Any,
    connection: Mapping[str, Any],
    record: "Record",
) -> list[str]:
    from dkernel.leaves.tuning.search import tune

    def fit(source: Any, recipe: "Recipe", executor: Any, **rest: Any) -> Any:
        search = tune(source, recipe, executor, grid, budget, **rest)
        record.note(recipe=search.recipe.to_dict(), recipe_sha256=search.recipe.digest)
        record.note(params=search.params, passes=search.passes, leaderboard=search.leaderboard)
        return search.fit

    record.note(grid=dict(grid), budget=str(values["budget"]))
    # A loss on the grid is one that was asked for: it tells classes from numbers as --loss does.
    if losses := grid.get("loss", ()):
        values = {**values, "loss": asked_loss(values) or losses[0]}
        recipe = recipe.replace(loss=values["loss"])
    return fit_files(values, recipe, connection, record, fit)


def _leaderboard(record: "Record") -> Iterator[str]:
    board = record.facts["leaderboard"]
    yield ""
    names = [name for name in board[0] if name != "rows"]
    rows = [[_cell(line.get(name)) for name in names] for line in board[:SHOWN_CANDIDATES]]
    yield from align_columns([names, *rows])
    if len(board) > SHOWN_CANDIDATES:
        yield f"... and {len(board) - SHOWN_CANDIDATES} more, in the run record"


def _cell(value: Any) -> str:
    return "-" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
