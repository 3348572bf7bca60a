"""The table of the leaves: folders of `dkernel/leaves` that can be deleted, which the rest loads by name.

The rest is the core. It imports no leaf, and a leaf imports the core and no other leaf. Where the folder of a leaf is
not there, what it gives is refused in one sentence, and everything else works.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from dkernel.errors import UnsupportedError


@dataclass(frozen=True)
class Leaf:
    """One row of the table: what the leaf gives, and where.

    Parameters
    ----------
    gives : what it is for, in a few words
    names : module of the folder -> public names of `dkernel`
    commands : commands of `dkernel`, each by the module of its name
    formats : formats of files, each read by the module of its name
    maps : kinds of feature maps, each in the module of its name
    kernels : modules of `names` whose names are kernels, known to texts of kernels
    solvers : words of solvers, each the `SOLVER` of the module of its name
    stage : the word of a local stage, whose settings `parameters.py` has, and `stage.py` the rest, as `LOCAL_STAGE`
    """

    gives: str
    names: Mapping[str, str] = field(default_factory=dict)
    commands: tuple[str, ...] = ()
    formats: tuple[str, ...] = ()
    maps: tuple[str, ...] = ()
    kernels: tuple[str, ...] = ()
    solvers: tuple[str, ...] = ()
    stage: str | None = None


LEAVES = {
    "analysis": Leaf(
        "kernel matrices of all rows, and whether a kernel is positive semi-definite",
        {"gram_matrix": "gram", "nystrom_operator": "nystrom_operator", "psd_check": "is_psd"},
    ),
    "arrays": Leaf("arrays in NPY, NPZ, Zarr and HDF5 files", formats=("hdf5", "npy", "zarr")),
    "cells": Leaf("the local stage of exact machines", {"parameters": "Cells"}, stage="cells"),
    "conformalize": Leaf("intervals and sets by rows that the fit has not seen", commands=("conformalize",)),
    "doctor": Leaf("the look at a cluster", commands=("doctor",)),
    "explanation": Leaf("Shapley values of predictions", {"explanation": "Explanation explain"}),
    "export": Leaf("models as ONNX graphs", {"onnx": "to_onnx"}, ("export",)),
    "jobs": Leaf("jobs that are given to a cluster", commands=("watch", "cancel")),
    "lakes": Leaf("snapshots of Delta and Iceberg tables"),
    "look": Leaf("the look at data before a fit", {"look": "Look look"}),
    "maps": Leaf("maps of rare kernels", maps=("chi2", "maclaurin", "relu", "tensorsketch")),
    "objects": Leaf(
        "kernels of strings and sets", {"strings_and_sets": "SetKernel SpectrumKernel"}, kernels=("strings_and_sets",)
    ),
    "report": Leaf("pages about a fit, an evaluation or a model"),
    "ridge": Leaf("the solver of normal equations", solvers=("normal",)),
    "svmlight": Leaf("sparse rows in svmlight files", formats=("svmlight",)),
    "transforms": Leaf(
        "transformers, clusterings, the one-class machine and the perceptron",
        {
            "binning": "BinningFeatures",
            "cca": "KernelCCA",
            "clustering": "KernelKMeans",
            "decomposition": "KernelPCA",
            "kernel_features": "KernelFeatures",
            "kernel_maps": "FourierFeatures NystromFeatures",
            "one_class": "OneClassSVM",
            "perceptron": "KernelPerceptron",
            "spectral_clustering": "SpectralClustering",
        },
    ),
    "tuning": Leaf("the search for parameters", {"tuner": "Tuner"}, ("tune",)),
}
_FOLDER = "dkernel.leaves"
LEAF_OF_NAME = {
    name: (leaf, module)
    for leaf, row in LEAVES.items()
    for module, names in row.names.items()
    for name in names.split()
}
LEAF_OF_COMMAND = {name: leaf for leaf, row in LEAVES.items() for name in row.commands}
LEAF_OF_FORMAT = {name: leaf for leaf, row in LEAVES.items() for name in row.formats}
LEAF_OF_MAP = {name: leaf for leaf, row in LEAVES.items() for name in row.maps}
LEAF_OF_KERNEL = {name.lower(): (name, *at) for name, at in LEAF_OF_NAME.items() if at[1] in LEAVES[at[0]].kernels}
LEAF_OF_SOLVER = {name: leaf for leaf, row in LEAVES.items() for name in row.solvers}
LEAF_OF_STAGE = {row.stage: leaf for leaf, row in LEAVES.items() if row.stage}


def has_leaf(leaf: str) -> bool:
    """True if this installation has the folder of a leaf, with its `__init__.py`: caches may stay of a deleted one."""
    spec = find_spec(f"{_FOLDER}.{leaf}")
    return spec is not None and spec.origin is not None


def load_leaf(leaf: str, module: str, asked: str) -> ModuleType:
    """Import a module of a leaf.

    Parameters
    ----------
    module : name of the module in the folder of the leaf
    asked : what needs it, as a user writes it

    Raises
    ------
    UnsupportedError
        If this installation is without the folder, or without a module of it.
    """
    lacks = ""
    try:
        if has_leaf(leaf):
            return import_module(f"{_FOLDER}.{leaf}.{module}")
    except ModuleNotFoundError as error:
        if not f"{error.name}.".startswith(f"{_FOLDER}.{leaf}."):  # of another package, which says so itself
            raise
        lacks = " a part of"
    raise UnsupportedError(
        f"{asked}: this installation of dkernel is without{lacks} its folder leaves/{leaf} ({LEAVES[leaf].gives}). "
        "Install dkernel again to have it."
    )
