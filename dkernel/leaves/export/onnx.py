"""The public function of the ONNX export, which imports onnx, an extra, when it is called."""

import os
import tempfile
from pathlib import Path
from typing import Any

from dkernel.errors import ModelFileError, RecipeError, UnsupportedError
from dkernel.model.model import Model


def to_onnx(model: Any, dtype: str = "float32") -> Any:
    """Export a model as an ONNX graph of standard operators (opset 17), which `onnx.checker` accepts.

    Input `X`, (rows, columns) of `dtype`, unscaled; of a table with categories, dates or missing values an input for
    each column by its name, (rows, 1): numbers of `dtype`, NaN where they are missing, categories as text, "" where
    they are missing, dates as float64, the seconds since 1970. Outputs of a
    classifier: `label` (rows,), texts, whole numbers, truth values or numbers as they were learned; `score` (rows, C)
    with C = 1 for two classes; `probability` (rows, n_classes) where the loss has it. Of a regression: `score`
    (rows, 1), the prediction, of k targets (rows, k).

    In float64 the graph agrees with the same formulas in numpy to 1e-9; in float32 with `Model.scores` to some 1e-5 of
    the largest score. Nystrom columns of kernels with a kink at x = z (Exponential, Matern with nu < 3/2) and of
    polynomials are computed in float64 inside either graph, and so are those whose coefficients cancel each other:
    float32 is not enough for them. A local stage leaves too: rows fall in the bins and cells of the fit, and cells are
    computed in float64. Missing numbers are filled as `predict` fills them; for a row that `predict` refuses, the run
    of the graph ends with an error, whose node says why.

    Parameters
    ----------
    model : Model, KernelClassifier or KernelRegressor
        Model, as `dkernel.load` gives it, or a fitted estimator.
    dtype : {"float32", "float64"}, default="float32"
        Dtype of input and outputs; predictions of a label that is far from 0 for its spread, dates in seconds say, need
        float64.

    Returns
    -------
    onnx.ModelProto
        The graph.

    Raises
    ------
    UnsupportedError
        If the operators cannot compute the kernel or map (the message lists those that they can), or coefficients are
        too large for float32.
    RecipeError
        If dtype has another value.

    See Also
    --------
    save : Write the model file.

    Examples
    --------
    >>> from dkernel import KernelClassifier
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(400, 2))
    >>> machine = KernelClassifier(gamma=0.5, n_components=64).fit(X, (X**2).sum(axis=1) < 1.4)
    >>> [output.name for output in to_onnx(machine).graph.output]
    ['label', 'score', 'probability']
    """
    model = getattr(model, "model_", model)
    if not isinstance(model, Model):
        raise ModelFileError(
            f"A {type(model).__name__} cannot be exported. Pass a dkernel Model (dkernel.load) or "
            "a fitted KernelClassifier, KernelRegressor, KernelKMeans, OneClassSVM or Tuner."
        )
    if dtype not in ("float32", "float64"):
        raise RecipeError(f"dtype={dtype!r} is not valid here. Possible: float32 | float64.")
    model.layout.require_numbers("to_onnx", "Score with dkernel, or train on columns of numbers.")
    try:
        from dkernel.leaves.export.graph import build_graph
    except ModuleNotFoundError as error:
        if error.name != "onnx":
            raise
        raise UnsupportedError("ONNX needs the package onnx, which is not installed: pip install onnx.") from None
    return build_graph(model, dtype)


def input_types(graph: Any) -> dict[str, str]:
    """Input of a graph -> the type of its values, "text" or a dtype of numpy."""
    import onnx

    types = {value.name: value.type.tensor_type.elem_type for value in graph.graph.input}
    dtype_of = onnx.helper.tensor_dtype_to_np_dtype
    return {name: "text" if kind == onnx.TensorProto.STRING else dtype_of(kind).name for name, kind in types.items()}


def write_onnx(graph: Any, path: str | os.PathLike[str]) -> int:
    """Write a graph to a file, and its tensors to one beside it, `path` + ".data", where they are more than 2 GB.

    Returns
    -------
    Bytes of both. Either file is whole or absent; the graph comes last.
    """
    import onnx

    from dkernel.data.store import locate, write_whole
    from dkernel.data.writers.atomic import explain_os_errors, sync
    from dkernel.leaves.export.graph import exceeds_protobuf

    if not exceeds_protobuf(graph):
        content = graph.SerializeToString()
        write_whole(path, content)
        return len(content)
    store, name = locate(path)
    with (
        explain_os_errors(os.fspath(path)),
        store.workplace() as here,
        tempfile.TemporaryDirectory(dir=here.absolute(), prefix=f".{name}-") as folder,
    ):
        made = [Path(folder, f"{name}.data"), Path(folder, name)]
        onnx.save_model(graph, str(made[1]), save_as_external_data=True, location=made[0].name)
        onnx.checker.check_model(str(made[1]))
        size = sum(each.stat().st_size for each in made)
        for each in made:
            sync(each)
            store.take(each, each.name)
    return size
