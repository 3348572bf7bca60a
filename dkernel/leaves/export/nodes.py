"""Nodes of an ONNX graph, written one operator after the other, and kernels as such nodes.

Everything is computed in one float type: onnxruntime has double kernels for all operators used here. Cosine is not
among them (on a CPU it is float32 alone), so it is a sine a quarter turn later.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from dkernel import kernels as ours
from dkernel.errors import UnsupportedError
from dkernel.kernels.algebra import Product, Scaled, Sum
from dkernel.kernels.landmark_columns.base import FARTHEST
from dkernel.kernels.transforms import Selection

SINGLE, DOUBLE, WHOLE = np.float32, np.float64, np.int64  # types of constants
KERNELS = (
    "Nystrom features can be exported with Gaussian, Laplacian, Exponential, Matern of nu 1/2, 3/2 and 5/2, "
    "RationalQuadratic, Cauchy, ProductCauchy, Linear and Polynomial kernels, .on(columns), and their sums, products "
    "and multiples."
)


def tensor_type(dtype: Any) -> int:
    """The type of the numbers or texts of a numpy dtype."""
    dtype = np.dtype(dtype)
    return onnx.TensorProto.STRING if dtype.kind == "O" else helper.np_dtype_to_tensor_dtype(dtype)


class Nodes:
    """A graph that grows; every method that adds a node returns the name of its result.

    Parameters
    ----------
    dtype : in which numbers are computed, "float32" or "float64"
    """

    def __init__(self, dtype: str) -> None:
        self.dtype = np.dtype(dtype)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self._number = itertools.count()
        self._reserved: set[str] = set()

    def inner(self) -> "Nodes":
        """A graph inside this one: it has nodes of its own and shares names and constants."""
        inner = copy(self)
        inner.nodes = []
        return inner

    @contextmanager
    def compute_in(self, dtype: Any) -> Iterator[None]:
        """Numbers of the block are of another dtype."""
        before, self.dtype = self.dtype, np.dtype(dtype)
        try:
            yield
        finally:
            self.dtype = before

    def reserve(self, names: Iterable[str]) -> None:
        """Give these names to no result."""
        self._reserved.update(names)

    def name(self, what: str) -> str:
        """A name that no result has."""
        return next(name for i in self._number if (name := f"{what}_{i}") not in self._reserved)

    def __call__(self, operator: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        name = output or self.name(operator.lower())
        self.nodes.append(helper.make_node(operator, list(inputs), [name], name=f"{name}_node", **attributes))
        return name

    def uses(self, domain: str) -> bool:
        """True if a node is of this domain of operators."""
        return any(node.domain == domain for node in self.nodes)

    def constant(self, value: Any, dtype: Any = None) -> str:
        """Add a tensor: numbers in the dtype of the graph unless said."""
        name = self.name("constant")
        self.constants.append(self.tensor(value, dtype, name))
        return name

    def tensor(self, value: Any, dtype: Any = None, name: str | None = None) -> onnx.TensorProto:
        """A tensor: numbers in the dtype of the graph unless said."""
        array = np.ascontiguousarray(np.asarray(value, dtype or self.dtype)).reshape(np.shape(value))
        return numpy_helper.from_array(array, name)

    def loop(
        self, body: "Nodes", count: str, step: str, before: str, after: str, first: str, shape: Sequence[str | int]
    ) -> str:
        """Add a loop that runs the nodes of `body` so often; what it makes of float64 numbers that begin as `first`.

        Parameters
        ----------
        step, before, after : names in the body: of the number of its run, of the numbers before it and after
        """
        on, still = self.name("on"), body.name("on")
        body.nodes.append(helper.make_node("Identity", [on], [still]))
        double, boolean = onnx.TensorProto.DOUBLE, onnx.TensorProto.BOOL
        inputs = [
            helper.make_tensor_value_info(step, onnx.TensorProto.INT64, []),
            helper.make_tensor_value_info(on, boolean, []),
            helper.make_tensor_value_info(before, double, shape),
        ]
        outputs = [
            helper.make_tensor_value_info(still, boolean, []),
            helper.make_tensor_value_info(after, double, shape),
        ]
        return self("Loop", count, "", first, body=helper.make_graph(body.nodes, "body", inputs, outputs))

    def cast(self, x: str, dtype: Any, output: str | None = None) -> str:
        """x in another dtype."""
        return self("Cast", x, to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), output=output)

    def affine(self, x: str, W: NDArray[np.float64], b: NDArray[np.float64] | None = None) -> str:
        """x W + b."""
        return self("Gemm", x, self.constant(W), *([] if b is None else [self.constant(b)]))

    def column(self, x: str, j: int) -> str:
        """One column of x, (n, 1)."""
        return self("Gather", x, self.constant([j], np.int64), axis=1)

    def columns(self, x: str, places: Any) -> str:
        """Some columns of x."""
        return self("Gather", x, self.constant(places, np.int64), axis=1)

    def scale(self, x: str, factor: float) -> str:
        """x times a number."""
        return x if factor == 1.0 else self("Mul", x, self.constant(factor))

    def plus(self, x: str, number: float) -> str:
        """x and a number."""
        return x if number == 0.0 else self("Add", x, self.constant(number))

    def clip(self, x: str) -> str:
        """x, and rows that are as good as infinitely far nearer, so that products of them are numbers."""
        return self("Clip", x, self.constant(-FARTHEST), self.constant(FARTHEST))

    def power(self, x: str, exponent: float) -> str:
        """x to some power; small whole ones by multiplication, which has no trouble with signs."""
        if float(exponent).is_integer() and 1 <= exponent <= 8:
            out = x
            for _ in range(int(exponent) - 1):
                out = self("Mul", out, x)
            return out
        return self("Pow", x, self.constant(exponent))

    def squared_distances(self, x: str, Z: NDArray[np.float64]) -> str:
        """‖x - z‖² of every pair, (n, m): centred, so that the difference of large squares is not all there is."""
        center = Z.mean(axis=0)
        x, Z = self.clip(self("Sub", x, self.constant(center))), Z - center
        norms = self("ReduceSum", self("Mul", x, x), self.constant([1], np.int64), keepdims=1)
        crossed = self.affine(x, -2.0 * Z.T, np.einsum("ij,ij->i", Z, Z))
        return self("Max", self("Add", crossed, norms), self.constant(0.0))


def no_counterpart(what: Any, which: str) -> UnsupportedError:
    """The refusal of a kernel or map that has no counterpart."""
    return UnsupportedError(
        f"{what} has no counterpart in the operators of ONNX. {which} Score with dkernel, or train with one of these."
    )


def wants_double(kernel: ours.Kernel) -> bool:
    """True if its columns at landmarks are for float64 alone.

    A kernel with a kink at x = z: the rounded difference of two squares is all there is of a small distance. A
    polynomial: its Gram matrix has a low rank, so its coefficients are large and cancel.
    """
    if isinstance(kernel, Sum | Product):
        return any(map(wants_double, kernel.members))
    if isinstance(kernel, Scaled | Selection):
        return wants_double(kernel.kernel)
    if isinstance(kernel, ours.Matern):
        return kernel.nu < 1.5
    return isinstance(kernel, ours.Exponential | ours.Linear | ours.Polynomial)


def kernel_values(to: Nodes, kernel: ours.Kernel, x: str, Z: NDArray[np.float64]) -> str:
    """k(x, z) of every row with every landmark, (n, m)."""
    if isinstance(kernel, Sum | Product):
        first, *others = [kernel_values(to, member, x, Z) for member in kernel.members]
        for other in others:
            first = to("Add" if isinstance(kernel, Sum) else "Mul", first, other)
        return first
    if isinstance(kernel, Scaled):
        return to.scale(kernel_values(to, kernel.kernel, x, Z), kernel.weight)
    if isinstance(kernel, Selection) and kernel.at is not None:
        places = list(kernel.at)
        return kernel_values(to, kernel.kernel, to.columns(x, places), Z[:, places])
    if isinstance(kernel, ours.Linear) and kernel.A is None:
        return to.affine(x, Z.T)
    if isinstance(kernel, ours.Polynomial):
        return to.power(to.plus(to.affine(x, Z.T), kernel.c), kernel.degree)
    if isinstance(kernel, ours.Laplacian | ours.ProductCauchy):
        return _by_column(to, kernel, x, Z)
    return _radial(to, kernel, x, Z)


def _radial(to: Nodes, kernel: ours.Kernel, x: str, Z: NDArray[np.float64]) -> str:
    if isinstance(kernel, ours.Gaussian):
        factors = np.sqrt(np.broadcast_to(np.array(kernel.gamma, np.float64), Z.shape[1]))
        squared = to.squared_distances(to("Mul", x, to.constant(factors)), Z * factors)
        return to("Exp", to("Neg", squared))
    if isinstance(kernel, ours.RationalQuadratic | ours.Cauchy):
        alpha = kernel.alpha if isinstance(kernel, ours.RationalQuadratic) else 0.5
        ratio = to.scale(to.squared_distances(x, Z), 1.0 / (2.0 * alpha * float(kernel.length) ** 2))
        exponent = alpha if isinstance(kernel, ours.RationalQuadratic) else 1.0
        return to("Reciprocal", to.power(to.plus(ratio, 1.0), exponent))
    nu = kernel.nu if isinstance(kernel, ours.Matern) else 0.5 if isinstance(kernel, ours.Exponential) else None
    if nu not in (0.5, 1.5, 2.5):
        raise no_counterpart(repr(kernel), KERNELS)
    squared = to.scale(to.squared_distances(x, Z), 2.0 * nu / float(kernel.length) ** 2)  # type: ignore[attr-defined]
    a = to("Sqrt", squared)
    decay = to("Exp", to("Neg", a))
    if nu == 0.5:
        return decay
    polynomial = to.plus(a, 1.0) if nu == 1.5 else to("Add", to.plus(a, 1.0), to.scale(squared, 1.0 / 3.0))
    return to("Mul", decay, polynomial)


def _by_column(to: Nodes, kernel: Any, x: str, Z: NDArray[np.float64]) -> str:
    """Σ_j |x_j - z_j| or Π_j, a column of the data at a time: never the (n, m, p) differences."""
    total = ""
    for j in range(Z.shape[1]):
        difference = to("Sub", to.column(x, j), to.constant(Z[:, j][None]))
        if isinstance(kernel, ours.Laplacian):
            part = to("Abs", difference)
        else:
            ratio = to.scale(difference, 1.0 / float(kernel.length))
            part = to.plus(to("Mul", ratio, ratio), 1.0)
        total = to("Add" if isinstance(kernel, ours.Laplacian) else "Mul", total, part) if total else part
    if isinstance(kernel, ours.Laplacian):
        return to("Exp", to.scale(total, -float(kernel.gamma)))
    return to("Reciprocal", total)
