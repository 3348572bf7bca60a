"""Parts that the commands share: option types, the run options, and how a value is found.

A value is looked for in this order: the flag, the variable DKERNEL_<COMMAND>_<NAME>, the variable DKERNEL_<NAME>, the
config file, the default.
"""

import json
import os
import re
import sys
import tomllib
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import click

from dkernel.errors import DataError, MissingLabelError, UnsupportedError
from dkernel.numerics.resource_limits import format_limit

Command = Callable[..., Any]
CONFIG = "dkernel.config"  # in the context of a command: the name of its config file
PROGRESS = ("bar", "log", "json", "none")
PER_COMMAND = ("out", "report", "record", "overwrite")
"""Options that mean something else in each command, so that a variable must name the command."""
_NOT_IN_CONFIG = ("config", "print_config", "help", "import")  # a file of settings runs no code


class Setting(click.Option):
    """An option that a variable sets too: DKERNEL_<COMMAND>_<NAME>, or DKERNEL_<NAME> if it is not in PER_COMMAND.

    Parameters
    ----------
    group : of the help that the option stands in
    usual : whether the short help has it
    first : sentence of the short help, where it has not all
    """

    def __init__(
        self, *names: Any, group: str = "Run", usual: bool = False, first: str | None = None, **settings: Any
    ) -> None:
        super().__init__(*names, **settings)
        self.group, self.usual, self.first = group, usual, first
        self.envvar = None if self.name in PER_COMMAND else f"DKERNEL_{str(self.name).upper()}"

    def resolve_envvar_value(self, ctx: click.Context) -> str | None:
        variable = f"DKERNEL_{ctx.command.name}_{self.name}".upper()
        return os.environ.get(variable) or super().resolve_envvar_value(ctx)

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        if isinstance(self, LabelOption) or isinstance(self.type, _Names):
            parser.add_option(obj=self, opts=self.opts, dest=self.name, action="append", nargs=self.nargs)
        else:
            super().add_to_parser(parser, ctx)

    def consume_value(self, ctx: click.Context, opts: Mapping[str, Any]) -> tuple[Any, Any]:
        given: Any = opts.get(self.name or "")
        if isinstance(self.type, _Names) and isinstance(given, list):
            opts = {**opts, str(self.name): ",".join(given)}  # of --exclude a --exclude b
        return super().consume_value(ctx, opts)


setting = partial(click.option, cls=Setting)
"""Decorator of a command: an option that is a `Setting`."""
data_setting, output_setting = (partial(setting, group=group) for group in ("Data", "Output"))
cluster_setting, model_setting = (partial(setting, group=group) for group in ("Cluster", "Model"))


class LabelOption(Setting):
    """Option of the label, refused if it is given twice: the first label would become a feature."""

    def consume_value(self, ctx: click.Context, opts: Mapping[str, Any]) -> tuple[Any, Any]:
        given = opts.get(self.name or "")
        if isinstance(given, list):
            if len(given) > 1:
                raise click.UsageError(
                    f"--label is given {len(given)} times, {', '.join(map(repr, given))}: files have one label. Train "
                    "a model of each (with --exclude of the others), or all in Python: KernelRegressor().fit(X, Y).",
                    ctx,
                )
            opts = {**opts, str(self.name): given[0]}
        return super().consume_value(ctx, opts)


class _WordOrNumber(click.ParamType):  # type: ignore[type-arg]
    """A number if the text is one, else a word, which the recipe checks."""

    name = "value"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ARG002
        if isinstance(value, str):
            for kind in (int, float):
                try:
                    number = kind(value)
                except ValueError:
                    continue
                whole = "e" in value.lower() and 1 <= abs(number) < 1e15 and number == int(number)
                return int(number) if whole else number  # 1e3 is as good as 1000
        return value


class _Names(click.ParamType):  # type: ignore[type-arg]
    """Names separated by commas; a list in a config file."""

    name = "name,..."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str):
            return tuple(name.strip() for name in value.split(",") if name.strip())
        if isinstance(value, list | tuple) and all(isinstance(name, str) for name in value):
            return tuple(value)
        return self.fail(f"{value!r} is not a list of names.", param, ctx)


class _Size(click.ParamType):  # type: ignore[type-arg]
    """Bytes, with a unit as Dask takes it."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not re.fullmatch(r"\d+(\.\d+)?(e\+?\d+)? ?([kMGTP]i?B?|B)?", str(value), re.IGNORECASE):
            self.fail(f"{value!r} is not a size. A size looks like 2GiB, 500MB or 1000000.", param, ctx)
        return str(value)


class FileType(click.ParamType):  # type: ignore[type-arg]
    """A path or URL of what a command reads or writes: `check_outputs` asks every option of this type, and no other.

    Parameters
    ----------
    use : "read"; "data", read too, where a folder or a glob stands for its files; "module", read where it is a file;
        "written"; or "folder", which is written to and may hold other files
    local : whether a URL is refused, for which a local folder 's3:' would be made
    """

    name = "path"

    def __init__(self, use: str, local: bool = False) -> None:
        self.use, self.local = use, local

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str):
            from dkernel.data.store import plain_path

            value = plain_path(value)
        if not self.local or "://" not in str(value):
            return value
        from dkernel.numerics.validation import refuse_url

        try:
            refuse_url(str(value), "this file or folder" if param is None else max(param.opts, key=len))
        except UnsupportedError as error:
            self.fail(str(error), param, ctx)
        return value


WORD_OR_NUMBER, NAMES, SIZE = _WordOrNumber(), _Names(), _Size()
READ, DATA, MODULE, WRITTEN, FOLDER = map(FileType, ("read", "data", "module", "written", "folder"))
READ_HERE, FOLDER_HERE = FileType("read", local=True), FileType("folder", local=True)


def named_files(ctx: click.Context) -> Iterator[tuple[click.Parameter, str, list[Any]]]:
    """The options of a command that name what it reads or writes: each with its use, and with what it names, if any."""
    for param in ctx.command.params:
        if isinstance(param.type, FileType):
            value = ctx.meta.get(CONFIG) if param.name == "config" else ctx.params.get(str(param.name))
            yield param, param.type.use, list(value) if isinstance(value, list | tuple) else [value] if value else []


def combine(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Decorator of a command that has all these options."""

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


debug_option = setting("--debug", is_flag=True, help="Print tracebacks.")
json_option = output_setting("--json", is_flag=True, help="Print one JSON object on stdout and nothing else.")
connection_options = combine(
    cluster_setting("--scheduler", metavar="ADDR", usual=True, help="Run on this Dask scheduler, tcp://host:8786."),
    cluster_setting(
        "--scheduler-file", type=READ_HERE, metavar="FILE", help="Run on the scheduler that wrote this file."
    ),
    setting(
        "--workers",
        type=click.IntRange(min=1),
        metavar="N",
        usual=True,
        help="Use N processes of this machine. Default: the threads of one.",
    ),
    setting("--memory-limit", type=SIZE, metavar="SIZE", usual=True, help="Memory limit of each worker, such as 2GiB."),
    cluster_setting(
        "--cluster-timeout",
        type=click.FloatRange(min=0, min_open=True),
        default=300.0,
        metavar="SECONDS",
        help="Stop if a cluster has no workers, or finishes nothing, for so long. Default: 300.",
    ),
)
label_option = click.option(
    "--label", cls=LabelOption, metavar="NAME", group="Data", usual=True, help="Column to predict. [required]"
)
exclude_option = data_setting(
    "--exclude", type=NAMES, metavar="COL,...", usual=True, help="Columns to ignore, such as identifiers."
)
weight_option = data_setting("--weight", metavar="COL", help="Column of sample weights.")
allow_extra_option = data_setting("--allow-extra", is_flag=True, help="Ignore columns that the model does not know.")
scratch_option = partial(data_setting, "--scratch", type=FOLDER_HERE, metavar="DIR")
bad_rows_option = data_setting(
    "--max-bad-rows",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    usual=True,
    help="Omit and list up to N bad rows.",
)
format_options = combine(
    data_setting("--encoding", metavar="NAME", help="CSV: encoding of the text, such as latin-1. Default: utf-8."),
    data_setting("--delimiter", metavar="CHAR", help="CSV: delimiter. Default: found in the first row."),
    data_setting("--no-header", is_flag=True, help="CSV: the first row holds no names; the columns are 0, 1, ..."),
)
numbering_options = data_setting(
    "--n-features",
    type=click.IntRange(min=1),
    metavar="N",
    help="svmlight: number of features. Default: from all files.",
)
"""Options of files without names of columns, which a model knows."""
out_option = output_setting("-o", "--out", type=WRITTEN, metavar="FILE", usual=True, help="Model file to write.")
overwrite_option = partial(output_setting, "--overwrite", is_flag=True, usual=True)
report_option = partial(output_setting, "--report", type=WRITTEN, metavar="FILE.html", usual=True)
coverage_option = output_setting(
    "--coverage",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.9,
    metavar="SHARE",
    usual=True,
    help="Share of the rows that intervals and sets are to cover. Default: 0.9.",
)
group_option = partial(output_setting, "--group", metavar="COL")


@contextmanager
def count_bad_rows(opened: Callable[..., Any], values: Mapping[str, Any], form: Any) -> Iterator[None]:
    """Say after the error of a missing label how many rows --max-bad-rows has to leave out; one reading counts them.

    Parameters
    ----------
    opened : gives the source of such values and of `form`, a recipe or a model
    """
    try:
        yield
    except MissingLabelError as error:
        n = 0
        with warnings.catch_warnings(), suppress(DataError):
            warnings.simplefilter("ignore")
            n = len(opened({**values, "max_bad_rows": sys.maxsize}, form).rejected)
        rows = "1 row is bad in all" if n == 1 else f"{n:,} rows are bad in all"
        raise DataError(f"{error} {rows}: --max-bad-rows {n} leaves them out." if n else str(error)) from None


def note_rejected(source: Any) -> dict[str, Any]:
    """Entry of a run record about the rows that were left out of a source."""
    listed = [] if source.rejected is None else source.rejected.to_pylist()
    counts = {"rows_in": source.n_rows + len(listed), "rows_rejected": len(listed)}
    return {**counts, "rejects": listed} if listed else counts


def file_arguments(values: Mapping[str, Any]) -> dict[str, Any]:
    """Give the options that say how files are read as arguments of `open_files`."""
    if values["delimiter"] is not None and len(values["delimiter"].encode()) != 1:
        raise click.UsageError(f"--delimiter {values['delimiter']!r}: one character is needed, such as ';'.")
    files: dict[str, Any] = {
        "delimiter": values["delimiter"],
        "no_header": values["no_header"],
        "text_encoding": values["encoding"],
    }
    files |= {"exclude": values["exclude"] or (), "scratch": scratch_folders(values)}
    if "n_features" in values:
        files["n_features"] = values["n_features"]
    return files


def _read_config(ctx: click.Context, _: click.Parameter, path: str | None) -> None:
    if path is None:
        return
    ctx.meta[CONFIG] = path
    try:
        table = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise click.UsageError(f"The config file {path!r} cannot be read: {error.strerror}.", ctx) from None
    except ValueError as error:
        raise click.UsageError(f"The config file {path!r} is not TOML: {error}.", ctx) from None
    options = {p.name: p for p in ctx.command.params if p.name and p.name not in _NOT_IN_CONFIG}
    values: dict[str, Any] = {}
    for key, value in table.items():
        name = key.replace("-", "_")
        if name == "import":
            raise click.UsageError(
                f"The config file {path!r} has {key} = {value!r}: a config file holds settings and runs no code. Take "
                "the modules out of it and name them on the command line, --import MODULE, or in DKERNEL_IMPORT.",
                ctx,
            )
        if name not in options:
            from dkernel.numerics.validation import nearest_name

            hint = nearest_name(name, sorted(options))
            raise click.UsageError(f"The config file {path!r} has an unknown key {key!r}.{hint}", ctx)
        many = options[name].nargs == -1 or options[name].multiple or isinstance(options[name].type, _Names)
        if not isinstance(value, (str, int, float, bool, list) if many else (str, int, float, bool)):
            raise click.UsageError(f"The config file {path!r} has {key} = {value!r}, which is not a valid value.", ctx)
        several = options[name].nargs == -1 or options[name].multiple
        values[name] = [value] if several and not isinstance(value, list) else value
    ctx.default_map = {**(ctx.default_map or {}), **values}


run_options = combine(
    connection_options,
    model_setting(
        "--import",
        type=MODULE,
        multiple=True,
        metavar="MODULE",
        help="Module or file.py that registers your own kernels, in the workers too. Can be repeated.",
    ),
    json_option,
    output_setting("-q", "--quiet", is_flag=True, usual=True, help="Print errors only; of evaluate the figures too."),
    output_setting("-v", "--verbose", is_flag=True, help="Print each choice when it is made, and all in the end."),
    output_setting(
        "--progress",
        type=click.Choice(PROGRESS),
        metavar="|".join(PROGRESS),
        help="Progress on stderr. Default: bar on a terminal, else log.",
    ),
    setting(
        "--config",
        type=READ_HERE,
        metavar="FILE.toml",
        is_eager=True,
        expose_value=False,
        callback=_read_config,
        help="Read settings from this file.",
    ),
    output_setting("--record", type=WRITTEN, metavar="FILE", help="Run record to write. Default: OUT.run.json."),
    click.option("--print-config", is_flag=True, help="Print all settings as a config file and stop."),
    debug_option,
)


def config_text(ctx: click.Context, values: Mapping[str, Any]) -> str:
    """The settings as a TOML file that sets them again; unset ones are comments."""
    lines = []
    for name in (param.name for param in ctx.command.params if param.name in values):
        if name in _NOT_IN_CONFIG:
            continue
        value = values[name]
        lines.append(f"# {name} =" if value is None or value == () else f"{name} = {_toml(value)}")
    return "\n".join(lines)


def print_config(ctx: click.Context, values: Mapping[str, Any]) -> None:
    """Print the settings and end the command, where --print-config asks for it."""
    if values["print_config"]:
        click.echo(config_text(ctx, values))
        ctx.exit()


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        value = [f"{name}={each}" for name, each in value.items()]
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, bool | str):
        # JSON's texts are TOML's, but for the one control character that JSON leaves bare.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)


def require_options(ctx: click.Context, values: Mapping[str, Any], names: Iterable[str]) -> None:
    """Refuse a command without these: checked here, because --print-config and --dry-run need fewer of them."""
    spelled = {p.name: p for p in ctx.command.params}
    for name in names:
        if values[name] is None or values[name] == ():
            raise click.MissingParameter(ctx=ctx, param=spelled[name])


def scratch_folders(values: Mapping[str, Any]) -> Any:
    """The folders for copies of the data that the options name."""
    from dkernel.data.scratch import Scratch
    from dkernel.data.store import is_url

    if values["scratch"]:
        return Scratch.of(values["scratch"])
    for name in ("checkpoint", "out"):
        if values.get(name) and not is_url(values[name]):
            path = Path(values[name]).absolute()
            above = path.parents if name == "out" else (path, *path.parents)
            return Scratch(beside=next(str(folder) for folder in above if folder.is_dir()))
    return Scratch()


def connect_arguments(ctx: click.Context, values: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of `dkernel.streaming.execution.connect.connect`."""
    named = [f"--{name.replace('_', '-')}" for name in ("scheduler", "scheduler_file", "workers") if values[name]]
    if len(named) > 1:
        raise click.UsageError(f"{' and '.join(named)} are different places to run on: give one of them.", ctx)
    if values["workers"] and values["memory_limit"]:
        _check_limit(values["memory_limit"])
    if values["workers"]:
        from dkernel.streaming.execution.connect import start_fork_server

        start_fork_server()  # its imports and those of this process take as long, so they go side by side
    connection = {name: values[name] for name in ("scheduler", "scheduler_file", "workers", "memory_limit")}
    return {**connection, "patience": values["cluster_timeout"]}


def _check_limit(limit: str) -> None:
    """Refuse a limit under which no worker starts, before any is started."""
    from dkernel.errors import MemoryBudgetError
    from dkernel.streaming.cost import WORKER_BASE
    from dkernel.streaming.execution.connect import parse_memory_limit

    if 0 < (parse_memory_limit(limit) or 0) < WORKER_BASE:
        least = format_limit(WORKER_BASE)
        raise MemoryBudgetError(
            f"--memory-limit {limit}: a worker process takes {least} before it has read a row. Give more than "
            f"--memory-limit {least}, or leave --workers out: the threads of one process need it once."
        )
