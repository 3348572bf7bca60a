"""The settings of a local stage, Grids say, as one value, and the text of this value in a recipe.

    "grids"  =  Grids()  =  "grids()",        "cells(rows=2048)"  =  Cells(rows=2048)

The settings are objects with `get_params` and `set_params`, as scikit-learn has parts of an estimator: `local__rows` of
the estimator is `rows` of them. They check nothing until a recipe is made of them, as an estimator does.

`dkernel.training.local_stages` has what fits a stage.
"""

import ast
import re
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from dkernel.errors import RecipeError
from dkernel.leaf_table import LEAF_OF_STAGE, has_leaf, load_leaf
from dkernel.model.recipe_checks import (
    Parameter,
    count_parameter,
    groups,
    parameter,
    parameter_table,
    refusal,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dkernel.model.local.base import LocalMachine

Settings = TypeVar("Settings", bound="LocalSettings")


STAGES: dict[str, type["LocalSettings"]] = {}
"""Word -> settings of a local stage."""

PARAMETERS_SENTENCE = "The parameters are those of the signature; `help` describes each."
"""The line of a docstring that `sections` takes the place of."""


def sections(parameters: Mapping[str, Parameter], task: str = "") -> str:
    """The parameter section of a docstring."""
    lines = []
    for name, p in parameters.items():
        lines.append(f"{name} : {p.type_in_docs(task)}")
        lines.append(textwrap.fill(p.text, 116, initial_indent=" " * 4, subsequent_indent=" " * 4))  # of a class
    return "\n".join(lines)


def fill_docstring(documented: Any, passages: Mapping[str, str]) -> None:
    """Put the passage of each sentence that is a line of the docstring in its place; {} of both are any words."""
    for sentence, passage in passages.items():
        if documented.__doc__ and sentence.split("{}")[0] in documented.__doc__:  # python -OO has none
            pattern = "(.+?)".join(map(re.escape, sentence.split("{}")))
            documented.__doc__ = re.sub(rf"^( *){pattern}$", partial(_indent, passage), documented.__doc__, flags=re.M)


def _indent(passage: str, line: re.Match[str]) -> str:
    margin, *words = line.groups()
    return textwrap.indent(passage.format(*words) if words else passage, margin)


def register_stage(word: str) -> Callable[[type[Settings]], type[Settings]]:
    """Decorate the settings of a local stage, a dataclass of parameters: enter the stage in STAGES."""

    def enter(cls: type[Settings]) -> type[Settings]:
        cls.word, STAGES[word] = word, cls
        fill_docstring(cls, {PARAMETERS_SENTENCE: sections(cls.table())})
        return cls

    return enter


class LocalSettings(ABC):
    """Settings of one local stage."""

    word: ClassVar[str]

    @staticmethod
    @abstractmethod
    def _machine() -> "type[LocalMachine]":
        """Import and return the class of the part of a model that the stage fits; its `kind` is the word."""

    @classmethod
    def table(cls) -> dict[str, Parameter]:
        """The settings by name."""
        return parameter_table(cls)

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
        return {name: getattr(self, name) for name in self.table()}

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
            _check_setting(type(self), name)
            setattr(self, name, value)
        return self

    @property
    def given(self) -> dict[str, Any]:
        """The settings that differ from their defaults."""
        values = {name: (getattr(self, name), p.default) for name, p in self.table().items()}
        # 1 and True are equal, and two settings.
        return {
            name: value for name, (value, default) in values.items() if (type(value), value) != (type(default), default)
        }

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.given.items())})"

    def _check(self) -> Self:
        """Check the settings; return them in the form of a recipe."""
        try:
            return type(self)(**{name: p.checked(getattr(self, name)) for name, p in self.table().items()})
        except RecipeError as error:
            raise RecipeError(f"local={self._text()!r}: {error}") from None

    def _text(self) -> str:
        return self.word + repr(self)[len(self.word) :]


@register_stage("grids")
@dataclass(repr=False)
class Grids(LocalSettings):
    """Settings of grids, the local stage of random binning.

    Parameters
    ----------
    The parameters are those of the signature; `help` describes each.

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

    n_grids: str | int = count_parameter(
        'Most grids; the holdout may end them earlier. "auto" is 256 to 2,048, by rows, and fewer for many classes.'
    )
    one_hot: Any = parameter(
        "auto",
        '0/1 features that grids take for one category together; "auto" finds neighbours of which no row of a sample '
        'has two, "none" takes none, and groups of names or patterns are "soil*;wild*".',
        groups,
        words=("auto", "none"),
        form="GROUPS",
        kind="str, list of lists",
    )

    @staticmethod
    def _machine() -> "type[LocalMachine]":
        from dkernel.model.local.grid_machine import GridMachine

        return GridMachine


def stage_names() -> str:
    """The local stages as advice, "local='grids' or local='cells'"."""
    return " or ".join(f"local={word!r}" for word in STAGES)


def _check_setting(stage: type[LocalSettings], name: str) -> None:
    names = list(stage.table())
    if name not in names:
        from dkernel.numerics.validation import nearest_name

        raise RecipeError(f"local={stage.word!r} has no setting {name!r}.{nearest_name(name, names)}")


def stage_word(text: str) -> str:
    """The word of the text of a local stage, "grids" of "grids(n_grids=64)"."""
    return text.partition("(")[0].strip()


def machine_class(word: str) -> "type[LocalMachine]":
    """The class of the part of a model that a local stage fits."""
    return STAGES[word]._machine()


def local_machine(spec: Mapping[str, Any], arrays: "Mapping[str, NDArray[Any]]") -> "LocalMachine":
    """Build the machine that `spec` and `arrays` of a model file describe.

    Raises
    ------
    ValueError
        if they describe no machine
    """
    if spec["kind"] not in STAGES:
        _refuse_absent(spec["kind"], f"A model with {spec['kind']}")
        raise ValueError(f"There is no local machine {spec['kind']!r}.")
    return machine_class(spec["kind"]).build(spec, arrays)


def _refuse_absent(word: str, asked: str) -> None:
    """Refuse the stage of a leaf that this installation is without."""
    if word in LEAF_OF_STAGE:
        load_leaf(LEAF_OF_STAGE[word], "parameters", asked)


def parse_settings(value: Any) -> LocalSettings | None:
    """The settings of a value of `local`; None for a word without settings.

    Examples
    --------
    >>> parse_settings("cells(rows=2048)"), parse_settings("grids"), parse_settings("auto")
    (Cells(rows=2048), Grids(), None)
    """
    if isinstance(value, LocalSettings):
        return value
    if not isinstance(value, str) or stage_word(value) not in STAGES:
        if isinstance(value, str):
            _refuse_absent(stage_word(value), f"local={value!r}")
        return None
    stage = STAGES[stage_word(value)]
    given = _arguments(value) if "(" in value else {}
    for name in given:
        _check_setting(stage, name)
    return stage(**given)


def _arguments(text: str) -> dict[str, Any]:
    """Read the arguments of a text such as "grids(n_grids=64)": numbers, words and lists. None of it is executed."""
    try:
        call = ast.parse(text.strip(), mode="eval").body
        if not isinstance(call, ast.Call) or call.args or any(each.arg is None for each in call.keywords):
            raise ValueError(text)
        values = {str(each.arg): each.value for each in call.keywords}
        return {k: v.id if isinstance(v, ast.Name) else ast.literal_eval(v) for k, v in values.items()}
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        raise RecipeError(f"local={text!r} is not valid. Settings look like 'grids(n_grids=1024)'.") from None


def local_text(p: Parameter, value: Any) -> str:
    """The text of a local stage in a recipe: its word, and the settings that differ from their defaults."""
    settings = parse_settings(value)
    if settings is None:
        if isinstance(value, str) and value in p.words:
            return str(value)
        raise refusal(p, value, f"{' | '.join(p.words)}, a stage also with settings, as 'grids(n_grids=1024)'")
    return settings._check()._text().removesuffix("()")


for _leaf in filter(has_leaf, LEAF_OF_STAGE.values()):  # which enter themselves in STAGES
    load_leaf(_leaf, "parameters", _leaf)
