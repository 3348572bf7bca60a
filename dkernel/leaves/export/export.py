"""`dkernel export`: a model as a file that other programs run."""

from pathlib import PurePath
from typing import Any

import click

from dkernel.cli.exit_codes import ExitCodeCommand
from dkernel.cli.options import MODULE, READ, WRITTEN, debug_option, setting
from dkernel.cli.outputs import check_outputs, check_writable
from dkernel.cli.say import say


@click.command("export", cls=ExitCodeCommand, short_help="Write a model as an ONNX graph.")
@click.argument("model", type=READ, metavar="MODEL")
@setting("-o", "--out", type=WRITTEN, required=True, metavar="FILE", help="File to write; an existing one is replaced.")
@setting(
    "--dtype",
    type=click.Choice(["float32", "float64"]),
    default="float32",
    metavar="float32|float64",
    help="Precision of the input and the scores.",
)
@setting("--import", type=MODULE, multiple=True, metavar="MODULE", help="Module that registers your own kernels.")
@debug_option
def export_command(model: str, out: str, dtype: str, debug: bool, **_: Any) -> None:  # noqa: ARG001
    """Write MODEL as --out, for programs without dkernel: onnxruntime in Python, C, Java, JavaScript and others.

    Input X (rows, columns), unscaled, in the order of `dkernel show`; of a table an input for each column, by its name.
    Outputs label, score, probability. Tensors of more than 2 GB go to a second file, --out with .data behind its name.

    \b
    dkernel export model.safetensors --out model.onnx
    dkernel export model.safetensors --dtype float64 --out model.onnx
    """

    check_outputs()
    check_writable("--out", out)
    if (ending := PurePath(out).suffix) not in ("", ".onnx"):
        raise click.UsageError(
            f"--out: an ONNX graph is written, and {PurePath(out).name} ends in {ending}. Use .onnx."
        )
    from dkernel.leaves.export.onnx import input_types, to_onnx, write_onnx
    from dkernel.model import model_file

    graph = to_onnx(model_file.load_model(model), dtype)
    inputs = ", ".join(f"{name} ({kind})" for name, kind in input_types(graph).items())
    outputs = ", ".join(value.name for value in graph.graph.output)
    size = write_onnx(graph, out)
    say(f"{out}: {size:,} bytes, opset {graph.opset_import[0].version}; {inputs} -> {outputs}")
