"""The help of a command in groups, the usual options first, and an answer to an option that does not exist."""

import re
from collections.abc import Iterable
from typing import Any, NoReturn

import click

OPTION_GROUPS = ("Data", "Model", "Output", "Run", "Cluster")
"""Groups of the help, in their order."""
IN_PYTHON = {"random_state": "seed", "text_encoding": "encoding"}
"""Parameters of Python -> the option of another name."""
FEW_OPTIONS = 12  # options; a command that has fewer shows them without groups
_TYPED_ELSEWHERE = {
    "--label": "--target --y -y --label-column --response",
    "--out": "--output --model",
    "--alpha C=NUMBER": "--C --c -C --cost",
    "--alpha": "--lambda --regularization --l2 --reg",
    "--passes": "--epochs --max-iter --n-epochs --iterations",
    "--kernel 'Gaussian(sigma=NUMBER)'": "--sigma --bandwidth",
    "--kernel 'Polynomial(degree=3)'": "--degree",
    "--kernel 'Matern(nu=1.5)'": "--nu",
    "--seed": "--random-state --random-seed",
    "--workers": "--jobs --n-jobs -j --threads --processes",
    "--loss logistic": "--probability",
    "--write probability": "--probabilities --proba",
    "--n-components": "--components --n-landmarks --columns",
    "--exclude": "--drop --ignore --id --features-exclude",
    "--weight": "--weights --sample-weight --sample-weights",
    "--holdout": "--validation --test-size --validation-fraction",
    "--scale standard": "--standardize",
    "--scale": "--scaling --scaler",
    "--cluster-timeout": "--timeout",
    "--memory-limit": "--memory",
    "--scheduler": "--address --client",
    "--loss": "--objective",
    "--kernel": "--kernels",
    "--overwrite": "--force",
    "--dry-run": "--plan",
    "--report": "--html",
}
COMMAND_SYNONYMS = {typed: option for option, words in _TYPED_ELSEWHERE.items() for typed in words.split()}
"""What users of other tools type -> the option here."""


def group_options(params: Iterable[click.Parameter], every: bool = True) -> dict[str, list[click.Option]]:
    """Group -> its options, the usual ones first; those that are not usual only if `every`."""
    groups: dict[str, list[click.Option]] = {group: [] for group in OPTION_GROUPS}
    for option in params:
        if isinstance(option, click.Option) and not option.hidden and (every or _is_usual(option)):
            groups[getattr(option, "group", "Run")].append(option)
    return {group: sorted(options, key=lambda o: not _is_usual(o)) for group, options in groups.items() if options}


def _is_usual(option: click.Option) -> bool:
    return getattr(option, "usual", False)


class Grouped(click.Command):
    """A command whose `--help` has the usual options in groups and whose `--help-all` has all of them."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        params = super().get_params(ctx)
        if self._is_short() or ctx.resilient_parsing:
            return params
        shown = "Print all options and exit."
        return [
            *params,
            click.Option(
                ["--help-all"], is_flag=True, is_eager=True, expose_value=False, callback=_help_all, help=shown
            ),
        ]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        params = super().get_params(ctx)
        if self._is_short():
            super().format_options(ctx, formatter)
            return
        every = bool(ctx.meta.get("dkernel.help_all"))
        for group, options in group_options([p for p in params if p.name != "help"], every).items():
            with formatter.section(group):
                formatter.write_dl(
                    # The column of options has at most 34 letters.
                    [record for option in options if (record := _record(option, ctx, every))],
                    col_max=34,
                )
        if not every:
            formatter.write_paragraph()
            formatter.write_text("--help-all lists all options, with clusters, solvers and settings.")

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            _refuse(error, self, ctx)

    def _is_short(self) -> bool:
        return len(self.params) <= FEW_OPTIONS


def _record(option: click.Option, ctx: click.Context, every: bool) -> tuple[str, str] | None:
    """A line of the help; long lists of words are left to --help-all."""
    record = option.get_help_record(ctx)
    first = getattr(option, "first", None)
    if record is not None and not every and first is not None:
        record = record[0], first
    words = option.metavar or ""
    if record is None or every or len(words) <= 40:  # longer words fill a line
        return record
    listed = ", ".join(words.split("|")[:3])
    return record[0].replace(words, "NAME"), f"{listed}, ... {record[1]}"


def _help_all(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked:
        ctx.meta["dkernel.help_all"] = True
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


def _refuse(error: click.NoSuchOption, command: click.Command, ctx: click.Context) -> NoReturn:
    """Refuse an unknown option, and name the one that is like it."""
    from dkernel.numerics.validation import nearest_name

    name = error.option_name
    known = [flag for param in command.params for flag in param.opts]
    meant = COMMAND_SYNONYMS.get(name) or COMMAND_SYNONYMS.get(name.lower().replace("_", "-"))
    if meant and meant.split()[0] in known:
        hint = f" Did you mean {meant}?"
    elif (dashed := name.replace("_", "-")) in known:
        hint = f" Did you mean {dashed}?"
    else:
        hint = nearest_name(name, known).replace("'", "")
        hint = hint if hint.startswith(" Did") else f" {ctx.command_path} --help-all lists them."
    raise click.UsageError(f"There is no option {name}.{hint}", ctx) from None


def in_options(message: str, command: click.Command) -> str:
    """The message of a recipe in the words of the command line: n_components=3 becomes --n-components 3.

    Arguments in brackets, as in Gaussian(gamma='auto'), stay what they are, and so do parts of a path,
    as in data/label=1/.

    Examples
    --------
    >>> command = click.Command("train", params=[click.Option(["--n-components"]), click.Option(["--loss"])])
    >>> in_options("n_components=-3 is not valid. Use loss='hinge', or leave loss out.", command)
    '--n-components -3 is not valid. Use --loss hinge, or leave --loss out.'
    >>> in_options("loss=1/part.parquet and data/loss=1.csv", command)
    'loss=1/part.parquet and data/loss=1.csv'
    >>> in_options("Give overwrite=True.", click.Command("score", params=[click.Option(["--overwrite"], is_flag=True)]))
    'Give --overwrite.'
    >>> in_options("Add formats={'pay': '1,234.5'}.", click.Command("train", params=[click.Option(["--formats"])]))
    "Add --formats 'pay=1,234.5'."
    """
    flags = {
        p.name: next(o for o in p.opts if o.startswith("--")) for p in command.params if isinstance(p, click.Option)
    }
    alone = {p.name for p in command.params if isinstance(p, click.Option) and p.is_flag}
    flags |= {python: flags[name] for python, name in IN_PYTHON.items() if name in flags}
    names = "|".join(sorted((name for name in flags if name), key=len, reverse=True))
    if not names:
        return message

    def flag(match: Any) -> str:
        if match["column"] is not None:
            return f"{flags[match['name']]} '{match['column']}={match['form']}'"
        value = match["text"] if match["text"] is not None else match["value"]
        if value == "True" and match["name"] in alone:
            return str(flags[match["name"]])
        quoted = f"'{value}'" if match["text"] is not None and re.search(r"[\s()*|]", value) else value
        return f"{flags[match['name']]} {quoted}"

    value = r"\{'(?P<column>[^']*)': '(?P<form>[^']*)'\}|'(?P<text>[^']*)'|(?P<value>[\w.+-]*\w)(?![\w/])"
    pattern = rf"(?<![\w(.,'/-])(?<![,(] )(?P<name>{names})=(?:{value})"
    message = re.sub(pattern, flag, message)
    return re.sub(
        rf"\b([Ll]eave|[Ll]ower|[Rr]aise|[Cc]hange) (?!out\b)({names})\b", lambda m: f"{m[1]} {flags[m[2]]}", message
    )
