"""Grids and Cells: the settings of a local stage as one value, and the text that a recipe keeps of it.

    "grids"  =  Grids()  =  "grids()",        "cells(rows=2048)"  =  Cells(rows=2048)

The settings are objects with `get_params` and `set_params`, as scikit-learn has parts of an estimator: `local__rows` of
the estimator is `rows` of them. They check nothing until a recipe is made of them, as an estimator does.
"""

import ast
from collections.abc import Mapping
from typing import Any, ClassVar, Self, TypeVar

from dkernel.errors import RecipeError
from dkernel.recipe_checks import Parameter, groups, real, refused, whole, word_or

GRIDS = (
    Parameter(
        "n_grids",
        "auto",
        'Number of grids, rounded up to a multiple of 16; "auto" is 128 to 1,024, by rows, and fewer for many classes.',
        word_or(whole(1)),
        ("auto",),
        "N",
        "int",
    ),
    Parameter(
        "one_hot",
        "auto",
        '0/1 features that grids take for one category together; "auto" finds neighbours of which no row of a sample '
        'has two, "none" takes none, and groups of names or patterns are "soil*;wild*".',
        groups,
        ("auto", "none"),
        "GROUPS",
        "str, list of lists",
    ),
)
CELLS = (
    Parameter(
        "rows",
        "auto",
        'Most rows of a cell, at least 16; "auto" is 4,096. The work of the cells grows with the square of it.',
        word_or(whole(16)),
        ("auto",),
        "N",
        "int",
    ),
    Parameter(
        "overlap",
        "auto",
        'Rows beyond its walls that each cell learns from too, as a share of its own, 0 to 2; "auto" is 0.5.',
        word_or(real("a number from 0 to 2", lambda v: 0 <= v <= 2)),
        ("auto",),
        "SHARE",
        "float",
    ),
    Parameter(
        "partitions",
        1,
        "Number of partitions of all rows into cells, whose means are the predictions. Time and model file grow with "
        "it.",
        whole(1),
        (),
        "N",
        "int",
    ),
)

Class = TypeVar("Class", bound=type)
Stage = TypeVar("Stage", "Grids", "Cells")


def sections(parameters: Mapping[str, Parameter], task: str = "") -> str:
    """The parameter section of a docstring, indented as one of a class."""
    import textwrap

    lines = []
    for name, p in parameters.items():
        lines.append(f"    {name} : {p.type_in_docs(task)}")
        lines.append(textwrap.fill(p.text, 120, initial_indent=" " * 8, subsequent_indent=" " * 8))
    return "\n".join(lines).lstrip()


def _document(cls: Class) -> Class:
    if cls.__doc__:  # python -OO has none
        cls.__doc__ = cls.__doc__.replace("{parameters}", sections({p.name: p for p in cls.table}))  # type: ignore[attr-defined]
    return cls


class _Settings:
    """Settings of one local stage."""

    word: ClassVar[str]
    table: ClassVar[tuple[Parameter, ...]]

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002 - the interface of scikit-learn
        """Give the settings by name.

        Parameters
        ----------
        deep : bool, default=True
            Nothing: no setting has settings of its own.

        Returns
        -------
        dict
            Name of each setting -> its value.

        Raises
        ------
        AttributeError
            If a setting was deleted.
        """
        return {p.name: getattr(self, p.name) for p in self.table}

    def set_params(self, **params: Any) -> Self:
        """Change settings.

        Parameters
        ----------
        **params : Any
            Name of a setting -> its value.

        Returns
        -------
        object
            This object.

        Raises
        ------
        RecipeError
            If there is no setting of that name.
        """
        for name, value in params.items():
            _setting(type(self), name)
            setattr(self, name, value)
        return self

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]

    @property
    def given(self) -> dict[str, Any]:
        """The settings that are no defaults."""
        return {p.name: value for p in self.table if not _same(value := getattr(self, p.name), p.default)}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.given.items())})"

    def _check(self) -> Self:
        """These settings as a recipe keeps them."""
        try:
            return type(self)(**{p.name: p.checked(getattr(self, p.name)) for p in self.table})
        except RecipeError as error:
            raise RecipeError(f"local={self._text()!r}: {error}") from None

    def _text(self) -> str:
        """The text of a recipe."""
        return self.word + repr(self)[len(self.word) :]


def _same(value: Any, default: Any) -> bool:
    return type(value) is type(default) and bool(value == default)


@_document
class Grids(_Settings):
    """Settings of grids, the local stage of random binning.

    Parameters
    ----------
    {parameters}

    See Also
    --------
    Cells : Settings of the other local stage.
    KernelClassifier : Classifier whose `local` may be one of them.

    Examples
    --------
    >>> Grids(n_grids=1024)
    Grids(n_grids=1024)
    >>> Grids().set_params(one_hot="none").get_params()
    {'n_grids': 'auto', 'one_hot': 'none'}
    """

    word = "grids"
    table = GRIDS

    def __init__(self, n_grids: str | int = "auto", one_hot: Any = "auto") -> None:
        self.n_grids = n_grids
        self.one_hot = one_hot


@_document
class Cells(_Settings):
    """Settings of cells, the local stage of an exact machine in each cell of a partition.

    Parameters
    ----------
    {parameters}

    See Also
    --------
    Grids : Settings of the other local stage.
    KernelClassifier : Classifier whose `local` may be one of them.

    Examples
    --------
    >>> Cells(rows=2048, partitions=2)
    Cells(rows=2048, partitions=2)
    """

    word = "cells"
    table = CELLS

    def __init__(self, rows: str | int = "auto", overlap: str | float = "auto", partitions: int = 1) -> None:
        self.rows = rows
        self.overlap = overlap
        self.partitions = partitions


STAGES: Mapping[str, type[Grids] | type[Cells]] = {"grids": Grids, "cells": Cells}
"""Word -> its settings."""


def _setting(stage: type[_Settings], name: str) -> None:
    names = [p.name for p in stage.table]
    if name not in names:
        from dkernel.validation import nearest_name

        raise RecipeError(f"local={stage.word!r} has no setting {name!r}.{nearest_name(name, names)}")


def stage_of(text: str) -> str:
    """The word of a local stage: "grids" of "grids(n_grids=64)"."""
    return text.partition("(")[0].strip()


def settings_of(value: Any) -> Grids | Cells | None:
    """The settings that a value of `local` has; None of a word that has none.

    Examples
    --------
    >>> settings_of("cells(rows=2048)"), settings_of("grids"), settings_of("auto")
    (Cells(rows=2048), Grids(), None)
    """
    if isinstance(value, Grids | Cells):
        return value
    if not isinstance(value, str) or stage_of(value) not in STAGES:
        return None
    stage = STAGES[stage_of(value)]
    given = _arguments(value) if "(" in value else {}
    for name in given:
        _setting(stage, name)
    return stage(**given)


def _arguments(text: str) -> dict[str, Any]:
    """The arguments of a text such as "grids(n_grids=64)", of numbers, words and lists alone; nothing in it is run."""
    try:
        call = ast.parse(text.strip(), mode="eval").body
        if not isinstance(call, ast.Call) or call.args or any(each.arg is None for each in call.keywords):
            raise ValueError(text)
        return {str(each.arg): _value(each.value) for each in call.keywords}
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        raise RecipeError(f"local={text!r} is not valid. Settings look like 'grids(n_grids=1024)'.") from None


def _value(node: ast.expr) -> Any:
    return node.id if isinstance(node, ast.Name) else ast.literal_eval(node)


def local_text(p: Parameter, value: Any) -> str:
    """The text of a local stage in a recipe: its word, and the settings that are no defaults."""
    settings = settings_of(value)
    if settings is None:
        if isinstance(value, str) and value in p.words:
            return str(value)
        raise refused(p, value, f"{' | '.join(p.words)}, the last two also with settings, as 'grids(n_grids=1024)'")
    return settings._check()._text().removesuffix("()")


def of_text(stage: type[Stage], text: str) -> Stage:
    """The settings of a stage: those of a recipe's text, or its defaults where that names another stage."""
    settings = settings_of(text)
    return settings if isinstance(settings, stage) else stage()
