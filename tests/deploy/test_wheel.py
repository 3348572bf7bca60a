"""What is shipped: the wheel holds every module and nothing else, and a model is trained from it alone."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BROUGHT = "dkernel/numerics/brought/a.loop.o"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel of the sources that git knows, with a compiled loop that was brought, made from their sdist."""
    place = tmp_path_factory.mktemp("wheel")
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.split(b"\0")
    for name in filter(None, map(os.fsdecode, files)):
        if name.startswith(("dkernel/", "pyproject.toml", "README.md", "LICENSE")) and (ROOT / name).is_file():
            (place / "source" / name).parent.mkdir(parents=True, exist_ok=True)
            (place / "source" / name).write_bytes((ROOT / name).read_bytes())
    (place / "source" / BROUGHT).parent.mkdir()
    (place / "source" / BROUGHT).write_bytes(b"of `python -m dkernel.numerics.bring`")
    command = [sys.executable, "-m", "build", "--outdir", str(place / "dist"), str(place / "source")]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    assert len(list((place / "dist").glob("*.tar.gz"))) == 1
    [found] = (place / "dist").glob("*.whl")
    return found


@pytest.mark.slow
def test_the_wheel_holds_every_module_and_nothing_else(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "dkernel").rglob("*.py")}
    assert {name for name in names if name.endswith(".py")} == modules
    others = {name for name in names if not name.endswith(".py") and ".dist-info/" not in name}
    assert others == {"dkernel/py.typed", "dkernel/CHANGES.md", BROUGHT}


@pytest.mark.slow
def test_a_model_is_trained_from_the_wheel_alone(wheel, tmp_path):
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    (tmp_path / "t.csv").write_text("a,b,label\n" + "".join(f"{i % 7},{i % 11},{i % 2}\n" for i in range(300)))
    command = [sys.executable, "-m", "dkernel", "train", "t.csv", "--label", "label", "--out", "m", "--quiet"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "m").stat().st_size > 0
