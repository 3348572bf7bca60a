"""The modules that a process may load, of other packages: what few need is loaded where it is needed."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

# What each may load, of others: a package by its name, and those of scipy and pyarrow that cost a tenth of a second.
PARTS = ("scipy.linalg", "scipy.optimize", "scipy.spatial", "scipy.special", "scipy.stats", "pyarrow.dataset")
PARTS = (*PARTS, "dask.array", "dask.dataframe")
DASK = {
    "cloudpickle",
    "dask",
    "importlib_metadata",
    "jinja2",
    "markupsafe",
    "packaging",
    "tlz",
    "toolz",
    "yaml",
    "zipp",
}
SCORE = DASK | {"click", "llvmlite", "numpy", "psutil", "pyarrow", "scipy", "scipy.linalg"}
FIT = SCORE | {"threadpoolctl"}
# What Dask and others take where it is installed.
BY_OTHERS = {"charset_normalizer", "chardet", "cityhash", "cython_runtime", "lazy_importer", "mmh3", "tblib", "xxhash"}
GIVEN = "--kernel gaussian --gamma median --scale standard --alpha 1e-4 --n-components 32 --local none --baselines off"
COMMAND = "import sys\nfrom dkernel.cli import main\nmain(sys.argv[1:], standalone_mode=False)\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with rows, a file of their features and a model, made by another process."""
    place = tmp_path_factory.mktemp("loaded")
    X = np.random.default_rng(0).standard_normal((400, 2)).round(3)
    table = pd.DataFrame(X, columns=["a", "b"]).assign(y=(X[:, 0] > 0).astype(int))
    table.to_parquet(place / "d.parquet", index=False)
    table.to_csv(place / "d.csv", index=False)
    table[["a", "b"]].to_parquet(place / "x.parquet", index=False)
    loaded(place, COMMAND, f"train d.parquet --label y --out m.st {GIVEN} --quiet")
    return place


def loaded(folder, code, arguments=""):
    """The modules of others that a process has at its end, beside those of the test's own start."""
    told = f"""
known = {{*sys.stdlib_module_names, *{BY_OTHERS!r}, *before}}
found = {{name.split(".")[0] for name in sys.modules}} - known
found |= {{name for name in {PARTS!r} if name in sys.modules}}
print("loaded", *(name for name in found if not name.startswith(("_", "dkernel"))))
"""
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\nbefore = {{*sys.modules}}\n{code}{told}", *arguments.split()],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split()[1:])


def again(folder, arguments):
    """What the second run of a command loads: the first may have compiled a loop."""
    loaded(folder, COMMAND, arguments)
    return loaded(folder, COMMAND, arguments)


def test_an_import_of_dkernel_loads_no_other_package(folder):
    assert loaded(folder, "import dkernel; dkernel.errors") == set()


def test_a_help_page_loads_click_alone(folder):
    for words in ("--help", "train --help", "score --help"):
        assert loaded(folder, COMMAND, words) == {"click"}


def test_a_score_loads_neither_numba_nor_a_table_library(folder):
    assert again(folder, "score m.st x.parquet --out s.parquet --overwrite --quiet") <= SCORE


def test_a_fit_loads_neither_numba_nor_another_engine(folder):
    assert again(folder, f"train d.parquet --label y --out n.st --overwrite {GIVEN} --quiet") <= FIT


@pytest.mark.slow  # a start of a process more
def test_a_fit_of_text_files_loads_pandas_only_since_arrow_does(folder):
    found = again(folder, f"train d.csv --label y --out n.st --overwrite {GIVEN} --quiet")
    assert found <= FIT | {"pandas", "dateutil", "pytz", "six", "tzdata"}
