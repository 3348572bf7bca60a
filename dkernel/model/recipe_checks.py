"""The class of a parameter, and the checks of its values.

The command imports this module for its help, so that what takes time to import is imported by the checks that need it.
"""

import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from dkernel.errors import RecipeError

Label = bool | int | float | str
GIVEN = "given"  # landmarks that were no rule's choice: the model holds them
LABELS = (bool, int, float, str)


def keep(p: "Parameter", value: Any) -> Any:  # noqa: ARG001 - a check of a parameter
    """The value as it is."""
    return value


@dataclass(frozen=True)
class Parameter:
    """One parameter: its name, default, words and sentences, said once for recipe, command, estimators and pages.

    Parameters
    ----------
    text : sentences, the first of which the short help of the command shows; other parameters stand in `...`, words in
        double quotes
    check : (parameter, value) -> the value as a recipe keeps it, or a RecipeError
    words : words that it takes, the default first
    form : values beside the words, as the command shows them, "N"
    kind : values beside the words in Python, "int"
    of_task : task -> the words that it has there, if fewer
    group : of the options, as the help of the command shows them
    usual : whether the short help has it
    """

    name: str
    default: Any
    text: str
    check: Callable[["Parameter", Any], Any] = keep
    words: tuple[str, ...] = ()
    form: str = ""
    kind: str = ""
    of_task: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    group: str = "Model"
    usual: bool = False

    def checked(self, value: Any) -> Any:
        """The value as a recipe keeps it.

        Raises
        ------
        RecipeError
            If the parameter does not take it.
        """
        return self.check(self, value)

    @property
    def metavar(self) -> str:
        """The words and values as the command shows them."""
        return "|".join([*self.words, *filter(None, [self.form])])

    def text_of_option(self, full: bool = True) -> str:
        """The sentences of the option; the first alone if not `full`."""
        text = re.sub(r"`(\w+)`", lambda m: "--" + m[1].replace("_", "-"), self.text)
        text = re.sub(r'"([^"]*)"', r"\1", text)
        if not full:
            text = text.partition(". ")[0].removesuffix(".") + "."
        default = self.default if self.default is not None and self.metavar.split("|")[0] != self.default else None
        return text if default is None else f"{text} Default: {default}."

    def type_in_docs(self, task: str) -> str:
        """The type and default of a numpydoc section."""
        words = [f'"{word}"' for word in self.of_task.get(task, self.words)]
        several = words[0] if len(words) == 1 else "{" + ", ".join(words) + "}"
        kinds = [*filter(None, [self.kind]), *([several] if words else [])]
        default = f'"{self.default}"' if isinstance(self.default, str) else self.default
        return f"{' or '.join(kinds)}, default={default}"


def parameter(
    default: Any, text: str, check: Callable[[Parameter, Any], Any], *, hash: bool = True, **more: Any
) -> Any:
    """A field of a dataclass that is a parameter: its name is the field's, the rest is as `Parameter` has it."""
    return field(default=default, hash=hash, metadata={"parameter": Parameter("", default, text, check, **more)})


def word_parameter(words: tuple[str, ...], text: str, default: str = "", **more: Any) -> Any:
    """A field that is a parameter of words alone, by default the first."""
    return parameter(default or words[0], text, word, words=words, **more)


def count_parameter(text: str, least: int = 1, default: str | int = "auto", **more: Any) -> Any:
    """A field that is a parameter of whole numbers, and of "auto" where that is the default."""
    words = (default,) if isinstance(default, str) else ()
    return parameter(default, text, word_or(whole(least)), words=words, form="N", kind="int", **more)


def parameter_table(cls: type[Any]) -> dict[str, Parameter]:
    """Name -> parameter, of a dataclass whose fields are parameters."""
    return {f.name: replace(f.metadata["parameter"], name=f.name) for f in fields(cls)}


def _plain(value: Any) -> Any:
    """The Python value of a numpy scalar, whose repr and JSON would differ from the same number's."""
    return value.item() if hasattr(value, "dtype") and getattr(value, "ndim", None) == 0 else value


def refusal(p: Parameter, value: Any, needed: str) -> RecipeError:
    """The error of a value that a parameter does not take."""
    from dkernel.numerics.validation import nearest_name

    hint = nearest_name(value, p.words) if isinstance(value, str) and p.words else ""
    hint = hint if hint.startswith(" Did") else ""
    return RecipeError(f"{p.name}={value!r} is not valid.{hint} Possible: {needed}.")


def word(p: Parameter, value: Any) -> str:
    if not (isinstance(value, str) and value in p.words):
        raise refusal(p, value, " | ".join(p.words))
    return str(value)


def scorer_name(p: Parameter, value: Any) -> str:
    if callable(value):
        raise RecipeError(
            f"{p.name}={value!r} is a function, and a fit compares its ways by a value of each row, which a function "
            f"of all rows has not. Give a name ({' | '.join(p.words)}), or search with "
            "sklearn.model_selection.GridSearchCV, whose scoring takes functions."
        )
    return word(p, value)


def whole(least: int) -> Callable[[Parameter, Any], int]:
    def check(p: Parameter, value: Any) -> int:
        try:
            number = -1 if isinstance(_plain(value), bool) else operator.index(value)
        except TypeError:
            number = -1
        if number < least:
            raise refusal(p, value, " | ".join([*p.words, f"a whole number of at least {least}"]))
        return number

    return check


def real(needed: str, holds: Callable[[float], bool]) -> Callable[[Parameter, Any], float]:
    def check(p: Parameter, value: Any) -> float:
        plain = _plain(value)
        try:
            number = math.nan if isinstance(plain, bool) or not isinstance(plain, int | float) else float(plain)
        except OverflowError:
            number = math.inf
        if not holds(number):
            raise refusal(p, value, " | ".join([*p.words, needed]))
        return number

    return check


positive_number = real("a finite number above 0", lambda v: math.isfinite(v) and v > 0)


def word_or(check: Callable[[Parameter, Any], Any]) -> Callable[[Parameter, Any], Any]:
    def either(p: Parameter, value: Any) -> Any:
        return str(value) if isinstance(value, str) and value in p.words else check(p, value)

    return either


def or_none(check: Callable[[Parameter, Any], Any]) -> Callable[[Parameter, Any], Any]:
    return lambda p, value: None if value is None else check(p, value)


def word_of_spelling(meaning: Mapping[Any, str]) -> Callable[[Parameter, Any], str]:
    """A word, or another spelling of one."""
    return lambda p, value: word(p, meaning.get(value, value) if isinstance(value, str | None) else value)


def landmark_rule(p: Parameter, value: Any) -> str:
    return GIVEN if isinstance(value, str) and value == GIVEN else word(p, value)


def loss_text(p: Parameter, value: Any) -> str:
    if isinstance(value, str) and "(" in value:
        from dkernel.losses.losses import parse_loss

        return parse_loss(value).text
    return word(p, value)


def kernel_text(p: Parameter, value: Any) -> str:  # noqa: ARG001 - the refusal of `parse` names the kernel
    if isinstance(value, str) and value == "auto":
        return value
    from dkernel.kernels import parse

    kernel = parse(value)
    return value if isinstance(value, str) else repr(kernel)


def _label(name: str, value: Any) -> Label:
    label = _plain(value)
    if not isinstance(label, LABELS) or (isinstance(label, float) and not math.isfinite(label)):
        raise RecipeError(f"{name}={value!r} is not valid. Possible: a bool, a finite number or a string.")
    return str(label) if isinstance(label, str) else label


def class_weights(p: Parameter, value: Any) -> str | dict[Label, float] | None:
    if value is None or isinstance(value, str):
        return None if value is None else word(p, value)
    if not isinstance(value, Mapping) or not value:
        raise refusal(p, value, "None | balanced | {label: weight}")
    pairs = [(_label(f"{p.name} label", each), _weight(p, each, weight)) for each, weight in value.items()]
    # Text and numbers have no order among themselves; equal dictionaries must still be equal texts.
    return dict(sorted(pairs, key=lambda pair: (isinstance(pair[0], str), pair[0])))


def _weight(p: Parameter, each: Any, value: Any) -> float:
    named = Parameter(f"{p.name}[{each!r}]", None, "", _not_negative)
    weight: float = named.checked(value)
    return weight


_not_negative = real("a finite number of at least 0", lambda v: math.isfinite(v) and v >= 0)
_strength = real("a finite number of at least 0 | C=NUMBER above 0", lambda v: math.isfinite(v) and v >= 0)


def strength(p: Parameter, value: Any) -> str | float:
    C = re.fullmatch(r"C=(\d+\.?\d*(e[+-]?\d+)?)", value.replace(" ", "")) if isinstance(value, str) else None
    if C is not None and 0 < float(C[1]) < math.inf:
        return f"C={float(C[1])!r}"
    number: str | float = word_or(_strength)(p, value)
    return number


def columns(p: Parameter, value: Any) -> str | tuple[str, ...]:
    if isinstance(value, str):
        return value if value in p.words else tuple(part.strip() for part in value.split(",") if part.strip())
    if not isinstance(value, list | tuple) or not value or not all(isinstance(part, str) for part in value):
        raise refusal(p, value, "auto | none | names of columns")
    return tuple(map(str, value))


def formats(p: Parameter, value: Any) -> dict[str, str] | None:
    if value is None or (isinstance(value, Mapping | list | tuple) and not value):
        return None
    if not isinstance(value, Mapping):
        texts = value if isinstance(value, list | tuple) else [value]
        texts = [part for text in texts for part in (text.split(";") if isinstance(text, str) else [text])]
        pairs = [text.partition("=") if isinstance(text, str) else ("", "", "") for text in texts]
        if not all(name and form for name, _, form in pairs):
            raise refusal(p, value, "COLUMN=FORMAT, as day=%d.%m.%Y or pay=1,234.5")
        value = {name: form for name, _, form in pairs}
        if len(value) < len(pairs):
            raise refusal(p, texts, "COLUMN=FORMAT, each column once")
    from dkernel.data.encoding.text_values import parse_formats

    parse_formats(value)
    return {str(name): str(form) for name, form in value.items()}


def groups(p: Parameter, value: Any) -> str | tuple[tuple[str, ...], ...]:
    if isinstance(value, str) and value in p.words:
        return value
    given = [group.split(",") for group in value.split(";")] if isinstance(value, str) else value
    if isinstance(given, list | tuple) and given and all(isinstance(group, list | tuple) and group for group in given):
        names = tuple(tuple(str(part).strip() for part in group) for group in given)
        if all(part for group in names for part in group):
            return names
    raise refusal(p, value, "auto | none | groups of names, as 'a,b;c,d' or [['a', 'b'], ['c', 'd']]")


def division(p: Parameter, value: Any) -> str:
    kind, _, column = value.partition(":") if isinstance(value, str) else ("", "", "")
    if value not in p.words and (kind not in ("group", "time") or not column.strip()):
        raise refusal(p, value, "random | group:COLUMN | time:COLUMN")
    return f"{kind}:{column.strip()}" if column else str(value)


UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30}


def size(p: Parameter, value: Any) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?([kmg]i?|)b?", str(_plain(value)).lower())
    if match is None or isinstance(value, bool):
        raise refusal(p, value, "bytes, as 200MiB, 1GB or 1000000")
    return int(float(match[1]) * UNITS[match[2]])
