"""The ONNX graph of a model: rows in, labels, scores and probabilities out, from standard operators alone."""

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from dkernel.errors import UnsupportedError
from dkernel.features import FeatureMap, FourierMap, NystromMap
from dkernel.features.column_subset import SelectedMap
from dkernel.features.concatenation import StackedMap
from dkernel.features.monomials import MonomialMap
from dkernel.leaves.export.encoding_nodes import ML, encode_columns, fill_missing
from dkernel.leaves.export.local_nodes import local_scores
from dkernel.leaves.export.nodes import KERNELS, Nodes, kernel_values, no_counterpart, tensor_type, wants_double
from dkernel.model.model import FINE_SCORES, Model
from dkernel.numerics.array_types import F64
from dkernel.version import __version__

OPSET, OPSET_ML, IR = 17, 3, 8  # runtimes since 2022 read these versions
MOST_TENSOR_BYTES = 1_900_000_000  # of the tensors of a message; the rest of it takes some megabytes
QUARTER = np.pi / 2  # turns a cosine into a sine
REFUSAL = "A number of a row is missing, infinite or too large for this model."  # name of a node, which errors tell
_EXPORTED_MAPS = f"{KERNELS} Fourier and exact maps, and sums of them, can be exported too."


def build_graph(model: Model, dtype: str) -> onnx.ModelProto:
    """The graph of `dkernel.to_onnx`."""
    largest = max(np.abs(model.coef).max(initial=0.0), np.abs(model.intercept).max())
    if largest > np.finfo(dtype).max:
        raise UnsupportedError(
            f"A coefficient of this model is {largest:.3g}, which is too large for {dtype}. Export it with "
            "dtype='float64'."
        )
    # Float32 columns lose digits of the scores by the kernel, or by coefficients that cancel each other.
    loses = isinstance(model.map, NystromMap) and (wants_double(model.map.kernel) or model.rounding > FINE_SCORES)
    to = Nodes("float64" if loses else dtype)
    # What a local machine sees is rounded once, as a block of the fit is: a row must not change its bin or cell.
    with to.compute_in(to.dtype if model.local is None else "float64"):
        x, inputs = _inputs(to, model, dtype)
    scores = _scores(to, model.map, _scale(to, model, x if model.local is None else to.cast(x, to.dtype)), model.coef)
    scores = to("Add", scores, to.constant(model.intercept))
    read = model.recipe.dtype
    if model.local is not None:
        scores = to("Add", scores, to.cast(local_scores(to, model.local, to.cast(x, read), read), to.dtype))
    scores = _refuse_others(to, scores, to.cast(x, read), to.cast(scores, dtype))
    if model.limits is not None:
        scores = to("Min", to("Max", scores, to.constant(model.limits[0])), to.constant(model.limits[1]))
    outputs = _outputs(to, model, scores, dtype)
    graph = helper.make_graph(to.nodes, "dkernel", inputs, outputs, to.constants)
    made = helper.make_model(
        graph,
        producer_name="dkernel",
        producer_version=__version__,
        ir_version=IR,
        opset_imports=[helper.make_opsetid("", OPSET), *[helper.make_opsetid(ML, OPSET_ML)] * to.uses(ML)],
    )
    helper.set_model_props(made, {"columns": ",".join(model.columns), "kernel": repr(model.map.kernel)})
    if not exceeds_protobuf(made):  # a checker reads messages, and these are files alone
        onnx.checker.check_model(made, full_check=True)
    return made


def exceeds_protobuf(graph: onnx.ModelProto) -> bool:
    """True if a graph is no protobuf message of at most 2 GB, so that its tensors need a file beside it."""
    return sum(len(tensor.raw_data) for tensor in graph.graph.initializer) > MOST_TENSOR_BYTES


def _inputs(to: Nodes, model: Model, dtype: str) -> tuple[str, list[onnx.ValueInfoProto]]:
    """The rows that the kernels take, and the inputs of the graph: X, or the columns of a table by their names."""
    if model.encoding is not None and not model.encoding.plain:
        return encode_columns(to, model.encoding, dtype)
    info = helper.make_tensor_value_info("X", tensor_type(dtype), ["rows", model.map.n_in])
    x = "X" if to.dtype == dtype else to.cast("X", to.dtype)
    return (x if model.reading is None or model.reading.strict else fill_missing(to, model.reading, x)), [info]


def _refuse_others(to: Nodes, scores: str, *finite: str) -> str:
    """The scores where these numbers of a row are finite; of others an index is out of bounds, which is an error."""
    odd = [to("Or", to("IsNaN", numbers), to("IsInf", numbers)) for numbers in finite]
    index = to("Max", *(to("ReduceMax", to.cast(each, np.int64), axes=[1], keepdims=1) for each in odd))
    zeros = to("Gather", to.constant([0.0]), index)
    to.nodes[-1].name = REFUSAL
    return to("Add", scores, zeros)


def _scale(to: Nodes, model: Model, x: str) -> str:
    scaling = model.scaling.in_dtype(model.recipe.dtype)
    if scaling.curves is not None:
        with to.compute_in("float64"):
            curves = scaling.curves
            x = _curves(to, to.cast(x, to.dtype), curves.ends, curves.knots, curves.values)
        x = to.cast(x, to.dtype)
    if scaling.shift.any():
        x = to("Sub", x, to.constant(scaling.shift))
    if (scaling.factor != 1.0).any():
        x = to("Mul", x, to.constant(scaling.factor))
    if scaling.rotation is None:
        return x
    return to.affine(to.clip(x) if model.map.kernel.shift_invariant else x, scaling.rotation)


def _scores(to: Nodes, map: FeatureMap, x: str, coef: NDArray[np.float64]) -> str:
    """columns(x) @ coef, (n, C)."""
    if isinstance(map, FourierMap):
        return _fourier(to, map, x, coef)
    if isinstance(map, NystromMap):
        return to.affine(kernel_values(to, map.kernel, x, map.landmarks.astype(np.float64)), coef)
    if isinstance(map, MonomialMap):
        return _monomials(to, map, x, coef)
    if isinstance(map, SelectedMap):
        return _scores(to, map.inner, to.columns(x, map.places), coef)
    if isinstance(map, StackedMap):
        total, at = "", 0
        for part, weight in zip(map.maps, map.weights, strict=True):
            part_coef = coef[at : at + part.n_components] * (weight**0.5 * float(part.whitening))
            score = _scores(to, part, x, part_coef)
            total = to("Add", total, score) if total else score
            at += part.n_components
        return total
    raise no_counterpart(f"The {map.kind} map of {map.kernel!r}", _EXPORTED_MAPS)


def _fourier(to: Nodes, map: FourierMap, x: str, coef: NDArray[np.float64]) -> str:
    turned = to.affine(x, map.frequencies.T, map.offsets)
    if not map.pairs:
        return to.affine(to("Sin", to.plus(turned, QUARTER)), coef)
    places = np.concatenate([np.arange(first, first + width) for first, _, width in map.groups])
    sines = np.concatenate([np.arange(first + width, first + 2 * width) for first, _, width in map.groups])
    cosine = to.affine(to("Sin", to.plus(turned, QUARTER)), coef[places])
    return to("Add", cosine, to.affine(to("Sin", turned), coef[sines]))


def _monomials(to: Nodes, map: MonomialMap, x: str, coef: NDArray[np.float64]) -> str:
    total, at = "", 0
    for degree, (factors, weights) in map.terms.items():
        degree_coef = coef[at : at + len(weights)] * weights[:, None]
        at += len(weights)
        if degree == 0:  # one number, for every row: 0 x + it keeps the shape
            score = to.affine(x, np.zeros((map.n_in, coef.shape[1])), degree_coef[0])
        else:
            product = to.columns(x, factors[:, 0])
            for j in range(1, degree):
                product = to("Mul", product, to.columns(x, factors[:, j]))
            score = to.affine(product, degree_coef)
        total = to("Add", total, score) if total else score
    return total


def _outputs(to: Nodes, model: Model, scores: str, dtype: str) -> list[onnx.ValueInfoProto]:
    """Adds the decisions; the outputs of the graph."""
    kind = tensor_type(dtype)
    heads = model.coef.shape[1]
    made = [helper.make_tensor_value_info("score", kind, ["rows", heads])]
    to.cast(scores, dtype, output="score")
    if model.classes is None:
        return made
    if heads == 1:
        flat = to("Squeeze", scores, to.constant([1], np.int64))
        index = to.cast(to("Greater", flat, to.constant(0.0)), np.int64)
    else:
        index = to("ArgMax", scores, axis=1, keepdims=0)
    classes = model.classes.astype(object) if model.classes.dtype.kind == "U" else model.classes
    to("Gather", to.constant(classes, classes.dtype), index, axis=0, output="label")
    made.insert(0, helper.make_tensor_value_info("label", tensor_type(classes.dtype), ["rows"]))
    if model.has_probabilities:
        to.cast(_probabilities(to, model, scores), dtype, output="probability")
        made.append(helper.make_tensor_value_info("probability", kind, ["rows", len(model.classes)]))
    return made


def _probabilities(to: Nodes, model: Model, scores: str) -> str:
    """P(class | x), (rows, classes), of scores (rows, heads)."""
    known, heads = model.calibration, model.coef.shape[1]
    if known is not None:
        scores = to("Concat", to("Neg", scores), scores, axis=1) if heads == 1 else scores
        if bend := float(known.bend[0]):
            scores = _asinh(to, to("Add", to("Mul", scores, to.constant(abs(bend))), to.constant(bend)))
        behind = to("Sub", scores, to("ReduceMax", scores, axes=[1]))
        return to("Softmax", to("Mul", behind, to.constant(known.slope)), axis=1)
    if heads == 1:
        return to("Concat", to("Sigmoid", to("Neg", scores)), to("Sigmoid", scores), axis=1)
    if model.loss.joint:
        return to("Softmax", scores, axis=1)
    p = to("Sigmoid", scores)
    return to("Div", p, to("ReduceSum", p, to.constant([1], np.int64), keepdims=1))


def _asinh(to: Nodes, x: str) -> str:
    """asinh(x), whose own operator is of float32 alone."""
    size = to("Abs", x)
    root = to("Sqrt", to("Add", to("Mul", size, size), to.constant(1.0)))
    return to("Mul", to("Sign", x), to("Log", to("Add", size, root)))


def _curves(to: Nodes, x: str, ends: NDArray[np.int64], knots: F64, values: F64) -> str:
    """The curve of each column, (rows, columns), with the knots and values up to its end."""
    parts = zip([0, *ends[:-1]], ends, strict=True)
    return to("Concat", *(_interpolate(to, knots[a:b], values[a:b], x, j) for j, (a, b) in enumerate(parts)), axis=1)


def _interpolate(to: Nodes, x: F64, y: F64, numbers: str, j: int) -> str:
    """The curve of one column, (rows, 1): between the two knots that a number lies between; itself without knots."""
    if not len(x):
        return to.column(numbers, j)
    if len(x) == 1:  # a level curve, as one of two knots
        x, y = np.array([x[0], x[0] + 1.0]), np.repeat(y, 2)
    s = to("Clip", to.column(numbers, j), to.constant(x[0]), to.constant(x[-1]))
    above = to.cast(to("Greater", s, to.constant(x[1:-1])), np.int64)
    left = to("ReduceSum", above, to.constant([1], np.int64), keepdims=1)
    right = to("Add", left, to.constant([1], np.int64))

    def at(knots: NDArray[np.float64], index: str) -> str:
        return to("Gather", to.constant(knots), index, axis=0)

    share = to("Div", to("Sub", s, at(x, left)), to("Sub", at(x, right), at(x, left)))
    return to("Add", at(y, left), to("Mul", share, to("Sub", at(y, right), at(y, left))))
