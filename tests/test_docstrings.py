"""Docstrings of the public names and of the classes to extend follow numpydoc."""

import ast
import inspect
import re
from functools import cached_property

import pytest
from numpydoc.validate import validate

import dkernel
from dkernel.estimators.docstrings import PASSAGES
from dkernel.features.base import FeatureMap
from dkernel.kernels.base import Kernel
from dkernel.losses.losses import Loss
from dkernel.model.local_settings import PARAMETERS_SENTENCE
from dkernel.streaming.reduction import Statistic
from tests.conftest import ABSENT
from tests.rooms import TREES

TO_EXTEND = (Kernel, FeatureMap, Loss, Statistic)
EXTENDED = "ES01"  # one sentence may say all
ASKED_OF_METHODS = {"EX01", "SA01"}  # the example and the related names of a method are those of its class
NO_PROPERTY = {"RT01"}
VERBLESS = ("What ", "Whether ", "Who ", "How ", "That ", "Those ", "As ")
SENTENCES = re.compile(
    "|".join(" *" + re.escape(each).replace(r"\{\}", ".+") for each in [*PASSAGES, PARAMETERS_SENTENCE])
)


def public() -> dict[str, tuple[object, bool]]:
    """Dotted name -> the object, and whether it is a method: each function once, where a class first has it."""
    classes = [getattr(dkernel, name) for name in dkernel.__all__ if name not in ("__version__", "errors")]
    classes = [one for one in classes if one.__module__.startswith("dkernel.")]  # not what stands for an absent leaf
    found, seen = {}, set()
    for one in (*TO_EXTEND, *classes):
        name = f"{one.__module__}.{one.__qualname__}"
        found[name] = (one, False)
        if not inspect.isclass(one):
            continue
        for member in dir(one):
            value = inspect.getattr_static(one, member)
            function = function_of(value)
            # What a class does with a method of a class to extend is said there.
            extends = any(hasattr(base, member) for base in TO_EXTEND if base is not one and issubclass(one, base))
            if member.startswith("_") or function is None or extends or function.__code__ in seen:
                continue
            if function.__module__.startswith("dkernel."):
                seen.add(function.__code__)
                found[f"{name}.{member}"] = (value, True)
    return found


def function_of(value: object):
    if isinstance(value, property):
        return value.fget
    if isinstance(value, cached_property):
        return value.func
    if isinstance(value, (classmethod, staticmethod)):
        value = value.__func__
    value = getattr(value, "fn", value)  # of scikit-learn's available_if
    return inspect.unwrap(value) if inspect.isfunction(value) else None


PUBLIC = public()


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_a_public_docstring_follows_numpydoc(name):
    """And its summary has a subject or a verb, no shared passage is left out, and a function says its errors."""
    value, is_method = PUBLIC[name]
    passed_over = {EXTENDED} | (ASKED_OF_METHODS if is_method else set())
    if isinstance(value, (property, cached_property)):
        passed_over |= NO_PROPERTY
    if value in TO_EXTEND:
        passed_over.add("EX01")  # an abstract class is shown by those that extend it
    wrong = [f"{code}: {text}" for code, text in validate(name)["errors"] if code not in passed_over]
    assert not wrong
    text = inspect.getdoc(function_of(value) or value)
    assert not text.startswith(VERBLESS)
    assert not any(line for line in text.splitlines() if SENTENCES.fullmatch(line))
    of_a_class_to_extend = any(name.startswith(f"{one.__module__}.{one.__qualname__}.") for one in TO_EXTEND)
    assert of_a_class_to_extend or not inspect.isfunction(value) or "Raises\n------" in text


def test_an_editor_shows_no_name_in_braces():
    """The source of a docstring is what most editors show, and its sentences are those of the passages."""
    shown = [
        text
        for tree in TREES.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and (text := ast.get_docstring(node))
    ]
    assert [text for text in shown if re.search(r"^ *\{[a-z][\w -]*\w(: [^{}]+)?\}$", text, re.MULTILINE)] == []
    lines = {line.strip() for text in shown for line in text.splitlines()}
    unused = [each for each in SENTENCES.pattern.split("|") if not any(map(re.compile(each).fullmatch, lines))]
    assert unused == [] or ABSENT  # a leaf that is absent has some of the sentences
