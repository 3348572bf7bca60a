"""The model as one file, and back: `save`, `load_model`, and `read_header`, which does not read the tensors.

The layout is that of `dkernel.model.tensor_file`. Here is the meaning: which tensors there are, what the document
says, and the checks that what was read is a model. Loading builds values from numbers and names; it runs nothing.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields, replace
from typing import Any, BinaryIO
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from dkernel.data.encoding import Encoding
from dkernel.data.schema import ColumnSchema, make_schema
from dkernel.data.writers.atomic import explain_os_errors
from dkernel.errors import ModelFileError
from dkernel.features import Scaling, map_from
from dkernel.kernels import Kernel, Selection
from dkernel.kernels.functions import OfFunction
from dkernel.kernels.registry import UnregisteredError, is_registered
from dkernel.losses.calibration import Calibration
from dkernel.losses.predictive_variance import Variance
from dkernel.model.conformal import Conformal
from dkernel.model.facts import check_facts
from dkernel.model.local_settings import STAGES, local_machine, machine_class
from dkernel.model.model import Model
from dkernel.model.parameters import PARAMETERS
from dkernel.model.recipe import Recipe, SettledRecipe
from dkernel.model.tensor_file import (
    all_finite,
    canonical,
    digest_as_read,
    digest_to_be,
    open_tensors,
    read_document,
    read_tensors,
    write_tensors,
)
from dkernel.numerics.array_record import arrays_under
from dkernel.numerics.sparse_rows import RangeNames
from dkernel.version import __version__

MODEL_VERSION = 2
"""The number of the format that `save` writes.

When the meaning or the layout of a file changes: (1) raise this number; (2) keep the reader of the old number, as a
function from its document and tensors to the new ones, and let `load_model` and `read_header` choose by the number;
(3) from the first release on, add a file written by the last one to tests/golden/: it must load and predict the same
numbers for ever. A new name among the facts is no change of the format. Numbers above its own a reader refuses. Nor are
a calibration, a variance, conformity scores, an encoding, or the columns of a regression of several targets: models
without them are the files that they were, and what does not know them refuses them.
"""

_PARTS = {"classes", "columns", "facts", "label", "map", "protocol", "recipe", "scaling", "sha256", "tensors"}
_CLASS_DTYPE = re.compile(r"bool|int64|float64|<U[1-9][0-9]{0,5}")
# Of models that were loaded: the sha256 of the file, whose tensors need not be packed again for it.
_DIGESTS: "WeakKeyDictionary[Model, str]" = WeakKeyDictionary()
# Errors that a part can raise when it is built from a document without meaning.
_MEANINGLESS = (ArithmeticError, AttributeError, LookupError, NotImplementedError, TypeError, ValueError)


def save(model: Any, path: str | os.PathLike[str]) -> str:
    """Write a model, or that of a fitted estimator, into a file.

    Parameters
    ----------
    model : Model or fitted estimator
        What to write. Equal models are equal files.
    path : str or path-like
        Place of the file, or a URL such as s3://bucket/model.safetensors; it holds the old file or the whole new one,
        never a part.

    Returns
    -------
    str
        Sha256 of the file.

    Raises
    ------
    ModelFileError
        If the object is no model, or holds numbers that are not finite.
    DataError
        If the place cannot be written to; a disk that is full or fails is a ClusterError.

    See Also
    --------
    load : Read a model file.

    Examples
    --------
    >>> try:
    ...     save("not a model", "model.safetensors")
    ... except ModelFileError as error:
    ...     print(str(error).split(".")[0])
    A str cannot be saved as a model
    """
    model = getattr(model, "model_", model)
    if not isinstance(model, Model):
        raise ModelFileError(
            f"A {type(model).__name__} cannot be saved as a model. A Model can, and a fitted KernelClassifier, "
            "KernelRegressor, KernelPerceptron, OneClassSVM, KernelKMeans or Tuner."
        )
    _check_shapes(model, "This model")
    for part in _kernel_parts(model.map.kernel):
        if isinstance(part, OfFunction) and not is_registered(str(part.name)):
            own = getattr(part.function, "__name__", "own")
            raise ModelFileError(
                f"This model has the kernel {part!r}. A model file holds the name of a function and no code, and this "
                f"function has none: say dkernel.register({own if own.isidentifier() else 'own'!r}, function) before "
                "the fit."
            )
    with explain_os_errors(os.fspath(path)):
        return write_tensors(path, _to_document(model), _collect_arrays(model))


def compute_digest(model: Model) -> str:
    """The sha256 of the model's file, as `sha256sum` prints it; of a model that was loaded it is known."""
    return _DIGESTS.get(model) or digest_to_be(_to_document(model), _collect_arrays(model))


def read_header(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Description of the model in a file (recipe, classes, columns, facts, ...), without reading the tensors."""
    with open_tensors(path, all_of_it=False) as file:
        return _read_parts(file, str(path))


def load_model(path: str | os.PathLike[str]) -> Model:
    """Load the model that `save` wrote; `dkernel.load` makes the estimator of it.

    Raises
    ------
    ModelFileError
        If the file is missing, damaged or of a newer dkernel: every byte is checked.
    """
    file_name = str(path)
    with open_tensors(path) as file:
        document = _read_parts(file, file_name)
        arrays = read_tensors(file, document, file_name, _by_parts(document))
    with _has_meaning(file_name):
        model = _model(document, arrays, file_name)
        _check_shapes(model, file_name)
        _DIGESTS[model] = digest_as_read(document, arrays)
    return model


@contextmanager
def _has_meaning(file_name: str) -> Iterator[None]:
    """Take an error of what is built from a document for one of the document."""
    try:
        yield
    except ModelFileError:
        raise
    except UnregisteredError as error:
        raise ModelFileError(
            f"{file_name} was trained with a kernel that is not known here. {error} Loading a model imports nothing by "
            "itself."
        ) from error
    except _MEANINGLESS as error:
        raise ModelFileError(
            f"{file_name} does not describe a model: {error!r}. Its checksums are right, so another program, or "
            "another version of dkernel, made it. Use the dkernel that made it, or train it again."
        ) from error


def _read_parts(file: BinaryIO, file_name: str) -> dict[str, Any]:
    """The document, each part of which is what whoever describes the model takes it for."""
    document = read_document(file, file_name, MODEL_VERSION)
    _check_parts(document, file_name)
    with _has_meaning(file_name):
        classes = _classes_from_json(document["classes"], file_name)
        check_facts(document["facts"], None if classes is None else len(classes), file_name)
        with suppress(UnregisteredError):  # its text describes a kernel, also where nobody has registered it
            Recipe.from_dict(document["recipe"])
        if len(document["tensors"]["coef"]["shape"]) != 2 or not isinstance(document["map"]["kind"], str):
            raise _no_model(file_name, "its map or its coefficients are of the wrong type.")
        schema_in(document)
    return document


def schema_in(document: Mapping[str, Any]) -> dict[str, ColumnSchema]:
    """Column -> what training saw of it, from the document of a file; empty where it was not kept."""
    if "schema" not in document["facts"]:
        return {}
    encoding = Encoding.from_json(document["encoding"]) if "encoding" in document else None
    return make_schema(document["columns"], encoding, document["facts"]["schema"])


def _no_model(file_name: str, why: str) -> ModelFileError:
    return ModelFileError(f"{file_name} does not describe a model: {why}")


def _by_parts(document: Mapping[str, Any]) -> set[str]:
    local = document.get("local")
    word = str(local.get("kind")) if isinstance(local, dict) else ""
    return {f"local.{name}" for name in machine_class(word).by_parts} if word in STAGES else set()


def _to_document(model: Model) -> dict[str, Any]:
    return {
        "protocol": MODEL_VERSION,
        "recipe": model.recipe.to_dict(),
        "classes": _classes_to_json(model.classes),
        "columns": _columns_to_json(model.columns),
        "label": model.label,
        "scaling": model.scaling.spec(),
        "map": model.map.spec(),
        "facts": model.facts,
        **({} if model.encoding is None else {"encoding": model.encoding.to_json()}),
        **({} if model.local is None else {"local": model.local.spec()}),
        **({} if model.conformal is None else {"conformal": {"groups": list(model.conformal.groups)}}),
    }


def _collect_arrays(model: Model) -> dict[str, NDArray[Any]]:
    local = {} if model.local is None else {f"local.{name}": array for name, array in model.local.arrays().items()}
    return _collect_global_arrays(model) | local


def _collect_global_arrays(model: Model) -> dict[str, NDArray[Any]]:
    """All but those of the local machine."""
    arrays = {"coef": model.coef, "intercept": model.intercept}
    for part, part_arrays in (("map", model.map.arrays()), ("scaling", model.scaling.arrays())):
        arrays |= {f"{part}.{name}": array for name, array in part_arrays.items()}
    answers = {"calibration": model.calibration, "variance": model.variance, "conformal": model.conformal}
    for part, known in answers.items():
        if known is not None:
            arrays |= {f"{part}.{name}": array for name, array in known.arrays().items()}
    return arrays


def _array_names(model: Model) -> set[str]:
    local = set() if model.local is None else {f"local.{name}" for name in model.local.array_names()}
    return _collect_global_arrays(model).keys() | local


def _model(document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], file_name: str) -> Model:
    for name, array in arrays.items():
        if array.dtype.kind == "f" and not all_finite(array):
            raise _no_model(file_name, f"a value in {name!r} is not finite.")
    columns = document["columns"]
    columns = RangeNames(columns["first"], columns["n"]) if isinstance(columns, dict) else tuple(columns)
    encoding = Encoding.from_json(document["encoding"]) if "encoding" in document else None
    _check_numbers(
        # Whole numbers up to it are small however small the map is: a degree, a rank
        document["map"],
        max(len(columns if encoding is None else encoding.names), len(arrays["coef"]), 1000),
        file_name,
    )
    recipe = SettledRecipe(Recipe.from_dict(document["recipe"]))
    variance, conformal = arrays_under("variance.", arrays), arrays_under("conformal.", arrays)
    model = Model(
        recipe=recipe,
        scaling=Scaling.build(document["scaling"], arrays_under("scaling.", arrays)),
        map=map_from(document["map"], arrays_under("map.", arrays)),
        coef=arrays["coef"],
        intercept=arrays["intercept"],
        classes=_classes_from_json(document["classes"], file_name),
        columns=columns,
        label=document["label"],
        facts=document["facts"],
        calibration=Calibration.build(arrays_under("calibration.", arrays)) if recipe.calibrates else None,
        variance=Variance.build(variance) if variance else None,
        conformal=Conformal.build(conformal, document["conformal"]["groups"]) if "conformal" in document else None,
        encoding=encoding,
        local=local_machine(document["local"], arrays_under("local.", arrays)) if "local" in document else None,
    )
    for part in _kernel_parts(model.map.kernel):
        if isinstance(part, Selection) and part.at and (last := max(part.at)) >= model.map.n_in:
            raise _no_model(file_name, f"its kernel is of column {last} of {model.map.n_in}.")
    # Arrays that no part asked for, or that read back differently, would make a second file of the same model.
    if (again := _array_names(model)) != arrays.keys():
        odd = ", ".join(sorted(again ^ arrays.keys()))
        raise _no_model(file_name, f"tensors missing or not used: {odd}.")
    for name, value in _to_document(model).items():
        if canonical(value) != canonical(document[name]):
            raise _no_model(file_name, f"its {name} reads back differently.")
    return model


def _check_numbers(part: Any, most: int, file_name: str) -> None:
    """Refuse whole numbers above `most`, the largest of any map of these columns: memory is taken for them at once."""
    if isinstance(part, dict | list):
        for value in part.values() if isinstance(part, dict) else part:
            _check_numbers(value, most, file_name)
    elif isinstance(part, int) and not 0 <= part <= most:
        raise _no_model(file_name, f"its map has the number {part}; 0 to {most} can be.")


def _kernel_parts(kernel: Any) -> Iterator[Kernel]:
    """The kernel and those that it is made of."""
    if isinstance(kernel, tuple):
        for member in kernel:
            yield from _kernel_parts(member)
    elif isinstance(kernel, Kernel):
        yield kernel
        for each in fields(kernel):  # type: ignore[arg-type]
            yield from _kernel_parts(getattr(kernel, each.name))


def _check_parts(document: Mapping[str, Any], file_name: str) -> None:
    columns, label, facts = document.get("columns"), document.get("label"), document.get("facts")
    if (parts := document.keys() - {"conformal", "encoding", "local"}) != _PARTS:
        odd = ", ".join(sorted(parts ^ _PARTS))
        raise _no_model(file_name, f"parts missing or unknown: {odd}.")
    listed = isinstance(columns, list) and all(isinstance(column, str) for column in columns)
    if not listed and not _is_numbered(columns):
        raise _no_model(file_name, "its columns are not a list of names.")
    if not isinstance(label, str) or not isinstance(facts, dict) or not isinstance(document["recipe"], dict):
        raise _no_model(file_name, "its label, facts or recipe are of the wrong type.")
    if (recipe := document["recipe"].keys()) != PARAMETERS.keys():
        versions = facts.get("versions")
        version = versions.get("dkernel") if isinstance(versions, dict) else None
        more, fewer = (", ".join(sorted(map(repr, names))) for names in (recipe - PARAMETERS, PARAMETERS - recipe))
        differences = " and ".join([f"has {more}"] * bool(more) + [f"lacks {fewer}"] * bool(fewer))
        raise ModelFileError(
            f"{file_name} was written by another version, dkernel {version or 'of no known number'}, and this is "
            f"dkernel {__version__}: its recipe {differences}. Train the model again, or read it with the one that "
            "wrote it."
        )


def _check_shapes(model: Model, file_name: str) -> None:
    # A regression has as many targets as intercepts.
    if model.classes is None:
        outputs = max(1, model.intercept.size)
    else:
        outputs = 1 if len(model.classes) == 2 else len(model.classes)
    n_in, curves = (len(model.inputs),), model.scaling.curves
    scaling = replace(model.scaling, curves=None).arrays()
    if curves is not None and not curves.fits(len(model.inputs)):
        raise _no_model(file_name, "its normal scores are none of these features.")
    if model.encoding is not None and model.encoding.column_names != tuple(model.columns):
        raise _no_model(file_name, "its encoding is of other columns.")
    if model.map.sparse != isinstance(model.columns, RangeNames):
        raise _no_model(file_name, "its map and its columns are of other rows.")
    if model.map.sparse:  # one number may be for all columns
        scaling = {name: array for name, array in scaling.items() if array.shape != (1,) or array.dtype != np.float64}
    shapes = {
        "coef": (model.coef.shape, (model.map.n_components, outputs)),
        "intercept": (model.intercept.shape, (outputs,)),
        "map": ((model.map.n_in,), n_in),
        **{
            f"scaling.{name}": (array.shape, n_in * (2 if name == "rotation" else 1)) for name, array in scaling.items()
        },
    }
    for name, (shape, needed) in shapes.items():
        if shape != needed:
            raise _no_model(file_name, f"{name} has shape {shape}; {needed} is needed.")
    for name, array in {"coef": model.coef, "intercept": model.intercept, **scaling}.items():
        if array.dtype != np.float64:
            raise _no_model(file_name, f"{name} is of type {array.dtype}, not float64.")
    if model.calibration is not None and (model.classes is None or not model.calibration.fits(outputs)):
        raise _no_model(file_name, f"its calibration is none of {outputs} score(s).")
    span = np.array(model.facts.get("span", np.zeros((2, outputs))))
    ordered = span.shape == (2, outputs) and span.dtype == np.float64 and bool((span[0] <= span[1]).all())
    if not ordered or (model.classes is not None and "span" in model.facts):
        raise _no_model(file_name, f"its span of labels is none of {outputs} target(s).")
    if len(model.facts.get("targets", range(outputs))) != outputs:
        raise _no_model(file_name, f"its names of targets are not {outputs}.")
    variance = model.variance
    if variance is not None and (model.classes is not None or not variance.fits(model.map.n_components, outputs)):
        raise _no_model(file_name, "its variance is none of this map.")
    strata = outputs if model.classes is None else len(model.classes)
    if model.conformal is not None and not model.conformal.fits(len(model.inputs), strata):
        raise _no_model(file_name, "its conformity scores are none of its answers.")
    if model.local is not None and not model.local.fits(len(model.inputs), outputs):
        raise _no_model(file_name, "its local part is of other rows or scores.")


def _columns_to_json(columns: Sequence[str]) -> list[str] | dict[str, int]:
    """The names, or of numbered ones the first and how many they are."""
    return {"first": columns.first, "n": columns.n} if isinstance(columns, RangeNames) else list(columns)


def _is_numbered(columns: Any) -> bool:
    numbers = (
        isinstance(columns, dict)
        and columns.keys() == {"first", "n"}
        and list(map(type, columns.values())) == [int] * 2
    )
    return numbers and 0 <= columns["first"] <= 1 and 0 < columns["n"] < 2**31


def _classes_to_json(classes: NDArray[Any] | None) -> dict[str, Any] | None:
    if classes is None:
        return None
    dtype = classes.dtype.str if classes.dtype.kind == "U" else classes.dtype.name
    if classes.ndim != 1 or not _CLASS_DTYPE.fullmatch(dtype):
        raise ModelFileError(
            f"This model has classes of type {classes.dtype} in {classes.ndim} dimensions; one dimension of bool, "
            "int64, float64 or text can be saved."
        )
    return {"dtype": dtype, "values": classes.tolist()}


def _classes_from_json(stored_classes: Any, file_name: str) -> NDArray[Any] | None:
    if stored_classes is None:
        return None
    if not _CLASS_DTYPE.fullmatch(stored_classes["dtype"]):
        raise _no_model(file_name, f"its classes are of type {stored_classes['dtype']!r}.")
    classes = np.array(stored_classes["values"], dtype=stored_classes["dtype"])
    if classes.ndim != 1 or len(set(stored_classes["values"])) < max(2, len(classes)):
        raise _no_model(file_name, "its classes are not different labels of one type.")
    return classes
