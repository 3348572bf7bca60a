"""The site has every page and every public name, and no link without a page."""

import subprocess
import sys
from pathlib import Path

import pytest

import dkernel

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_the_site_has_every_page_and_name(tmp_path):
    command = [sys.executable, str(ROOT / "scripts" / "site.py"), "--out", str(tmp_path / "site")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    for name in dkernel.__all__:
        assert name == "__version__" or f"dkernel.{name}" in (tmp_path / "site" / "api" / f"{name}.html").read_text()
    for page in ("index.html", "dkernel/TOUR.html", "scripts/bench/STUDY.html", "search/search_index.json"):
        assert (tmp_path / "site" / page).is_file()
    assert (tmp_path / "site" / "scripts" / "bench" / "figures" / "frontier.png").is_file()
