"""The site has every page, every public name with its parameters, and no link without a page."""

import re
import subprocess
import sys
from html import unescape
from inspect import signature

import pytest

import dkernel
from tests.chromium import PROGRAM, look_at, start_chromium
from tests.processes import ROOT

BUILD_ONE = """
import sys
from pathlib import Path
from scripts.site import build, write_api
write_api(Path(sys.argv[1]), ["KernelClassifier"])
(Path(sys.argv[1]) / "README.md").write_text("# Home\\n\\n```{toctree}\\napi/index\\n```\\n")
sys.exit(build(Path(sys.argv[1]), Path(sys.argv[2])))
"""
BEYOND = """(() => {
    const page = document.querySelector(".bd-article-container");
    return page.scrollWidth - page.clientWidth;
})()"""


def run(*arguments):
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False, timeout=300, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr


def text_of(page):
    return unescape(re.sub(r"<[^>]*>", "", page.read_text()))


def test_the_page_of_a_class_has_its_parameters(tmp_path):
    """That of a class whose docstring is made on import had none: n_components was nowhere on it."""
    run("-c", BUILD_ONE, tmp_path, tmp_path / "site")
    page = tmp_path / "site" / "api" / "KernelClassifier.html"
    for name, parameter in signature(dkernel.KernelClassifier).parameters.items():
        assert f"{name}={parameter.default!r}" in text_of(page)
        assert f"<strong>{name}</strong>" in page.read_text()
    if PROGRAM is not None:
        with start_chromium(tmp_path / "profile") as address:
            assert look_at(address, page.as_uri(), 400, script=BEYOND) == 0


@pytest.mark.slow
def test_the_site_has_every_page_and_name(tmp_path):
    run(ROOT / "scripts" / "site.py", "--out", tmp_path)
    for name in set(dkernel.__all__) - {"__version__"}:
        assert f'id="dkernel.{name}"' in (tmp_path / "api" / f"{name}.html").read_text() or name == "errors"
    assert "A folder larger than memory" in text_of(tmp_path / "index.html")
    assert re.search(r"<td><p>\d+\.\d\u00a0%</p></td>", (tmp_path / "index.html").read_text())
    assert re.search(r"\bMore\b.*\bSpectrumKernel\b", text_of(tmp_path / "api" / "index.html"), re.DOTALL)
    assert (
        5 < len(set(re.findall(r'"nav-link nav-internal" href="(\S+)"', (tmp_path / "index.html").read_text()))) <= 10
    )
    for page in ("dkernel/TOUR.html", "scripts/bench/STUDY.html", "searchindex.js", "_images/mainjob.png"):
        assert (tmp_path / page).is_file()
