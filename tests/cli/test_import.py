"""--import: a user's kernels in the commands and in their workers, and what is said without it."""

import sys

import numpy as np
import pandas as pd
import pytest

from dkernel.errors import ClusterError, ModelFileError, RecipeError
from dkernel.kernels import registry
from dkernel.model.model_file import load_model
from dkernel.streaming.execution import user_modules as imports
from dkernel.streaming.execution.user_modules import UserModule, import_modules, install

OWN = """
import numpy as np
import dkernel

@dkernel.register("{name}")
def start(A, B):
    return np.array([[float(a[:2] == b[:2]) + float(a[:1] == b[:1]) for b in B] for a in A])
"""
FAST = ["--n-components", "16", "--alpha", "1e-4", "--quiet"]
TRAIN = ["train", "d.csv", "--label", "y", "--kernel", "FunctionKernel('start')", "--out", "m.st", "--overwrite", *FAST]


@pytest.fixture(autouse=True)
def as_before(monkeypatch):
    """What a test registers and imports is gone after it."""
    monkeypatch.setattr(registry, "_FUNCTIONS", dict(registry._FUNCTIONS))
    monkeypatch.setattr(imports, "_CARRIED", {})
    modules = set(sys.modules)
    yield
    for name in set(sys.modules) - modules:
        if hasattr(sys.modules[name], imports._MARK):
            del sys.modules[name]


@pytest.fixture
def folder(here):
    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice(list("ab"), 6)) for _ in range(400)]
    pd.DataFrame({"s": texts, "y": [t[:2] in ("aa", "bb") for t in texts]}).to_csv(here / "d.csv", index=False)
    (here / "own_kernels.py").write_text(OWN.format(name="start"))
    return here


def forget(monkeypatch):
    monkeypatch.setattr(registry, "_FUNCTIONS", {})
    sys.modules.pop("own_kernels", None)


@pytest.mark.usefixtures("folder")
def test_train_evaluate_and_score(run_to, monkeypatch):
    run_to(*TRAIN, code=2)
    run_to(*TRAIN, "--import", "own_kernels.py")
    forget(monkeypatch)
    result = run_to("evaluate", "m.st", "d.csv", code=65)
    assert "no function is registered" in result.output
    assert "--import" in result.output
    result = run_to("evaluate", "m.st", "d.csv", "--import", "own_kernels.py", "--json", "--quiet")
    assert '"accuracy": 1.0' in result.stdout
    forget(monkeypatch)
    result = run_to(
        "score", "m.st", "d.csv", "--exclude", "y", "--out", "s.csv", "--import", "own_kernels.py", "--quiet"
    )
    assert len(pd.read_csv("s.csv")) == 400
    forget(monkeypatch)
    run_to("show", "m.st")  # it reads no kernel


@pytest.mark.slow
def test_in_worker_processes(run_to, folder):
    run_to(*TRAIN, "--import", "own_kernels.py")
    alone = (folder / "m.st").read_bytes()
    run_to(*TRAIN, "--import", "own_kernels.py", "--workers", "1")
    assert (folder / "m.st").read_bytes() == alone


@pytest.mark.parametrize("command", ["train", "tune", "score", "evaluate", "doctor"])
@pytest.mark.parametrize("text", ['import = ["ran.py"]', 'import = "ran.py"', "import = []"])
def test_a_config_file_runs_no_code(run_to, folder, command, text):
    (folder / "ran.py").write_text("open('ran', 'w').close()\n")
    (folder / "c.toml").write_text(f"{text}\n")
    result = run_to(command, "d.csv", "--config", "c.toml", code=2)
    assert "runs no code" in result.stderr
    assert not (folder / "ran").exists()


def test_what_is_printed_as_a_config_file_can_be_read(run_to, folder):
    asked = ["train", "d.csv", "--label", "y", "--import", "own_kernels.py"]
    (folder / "c.toml").write_text(run_to(*asked, "--print-config").stdout)
    again = run_to("train", "--config", "c.toml", "--import", "own_kernels.py", "--print-config")
    assert again.stdout == (folder / "c.toml").read_text()


def test_a_class_of_kernels_that_a_model_names(run_to, folder, monkeypatch):
    (folder / "own_class.py").write_text(
        "from dataclasses import dataclass\nimport numpy as np\nimport dkernel\n"
        "from dkernel.kernels import Kernel\n\n"
        "@dkernel.register('Bump')\n@dataclass(frozen=True)\nclass Bump(Kernel):\n    width: float = 1.0\n"
        "    def _values(self, X, Z):\n"
        "        return np.exp(-((X[:, None] - Z[None]) ** 2).sum(-1) / self.width)\n"
        "    def _diag(self, X):\n        return np.ones(len(X))\n"
    )
    x = np.random.default_rng(0).normal(size=300)
    pd.DataFrame({"x": x, "y": np.abs(x) > 0.7}).to_csv("n.csv", index=False)
    run_to("train", "n.csv", "--label", "y", "--kernel", "Bump(0.5)", "--out", "b.st", *FAST,
                 "--import", "own_class.py")  # fmt: skip
    monkeypatch.setattr(registry, "_FUNCTIONS", {})
    with pytest.raises(ModelFileError, match=r"There is no kernel .Bump..*imports nothing by itself"):
        load_model("b.st")


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("no_such_module", None, "there is no such module"),
        ("no_such_file.py", None, "cannot be read"),
        ("odd-name.py", "", "not a module name"),
        ("json.py", "", "another module 'json'"),
        ("broken.py", "x = (", "SyntaxError"),
        ("fails.py", "1 / 0", "ZeroDivisionError"),
        ("lacks.py", "import not_installed", "No module named 'not_installed'"),
    ],
)
def test_what_cannot_be_imported(name, text, says, run_to, folder):
    if text is not None:
        (folder / name).write_text(text)
    with pytest.raises(RecipeError, match=says):
        import_modules([name])
    result = run_to("evaluate", "m.st", "d.csv", "--import", name, code=2)
    assert "Traceback" not in result.output
    assert imports.user_modules() == ()


def test_a_file_that_changed_takes_the_place_of_the_old_one(folder):
    import_modules(["own_kernels.py"])
    first = registry._FUNCTIONS["start"]
    import_modules(["own_kernels.py"])
    assert registry._FUNCTIONS["start"] is first
    (folder / "own_kernels.py").write_text(OWN.format(name="start") + "\nNEW = 1\n")
    import_modules(["own_kernels.py"])
    assert registry._FUNCTIONS["start"] is not first
    assert sys.modules["own_kernels"].NEW == 1
    assert [module.name for module in imports.user_modules()] == ["own_kernels"]


def test_a_worker_says_what_it_lacks():
    install([UserModule("json"), UserModule("own_kernels", "own_kernels.py", OWN.format(name="start"))])
    assert "start" in registry._FUNCTIONS
    with pytest.raises(ClusterError, match="installed on every worker"):
        install([UserModule("no_such_module")])
