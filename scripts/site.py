"""Make a site of the pages that stand in the repository, with a page for each public name and a search.

Needs Sphinx: pip install '.[site]'. A warning, such as a link without a page, ends it with 1.

    python scripts/site.py                 # into the folder site
    python scripts/site.py --out public
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
MENU = """
Tour     dkernel/TOUR dkernel/SERVICE dkernel/leaves/export/README
Data     dkernel/data/README dkernel/data/BAD_INPUT
Command  dkernel/cli/README dkernel/cli/OPTIONS
Python   dkernel/estimators/README dkernel/estimators/SURE
Kernels  dkernel/kernels/README dkernel/kernels/STRUCTURED dkernel/features/README dkernel/losses/README
Training dkernel/training/README dkernel/model/local/README
Dask     dkernel/streaming/execution/README deploy/README
API      api/index
More     scripts/bench/README scripts/bench/CHOICES dkernel/CHANGES tests/README
"""
"""An entry of the menu, its page, and the pages under it."""

SETTINGS = {
    "project": "dkernel",
    "html_title": "dkernel",
    "root_doc": "README",
    "extensions": ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "numpydoc"],
    "html_theme": "pydata_sphinx_theme",
    "html_theme_options": {"header_links_before_dropdown": 10, "show_prev_next": False},
    "html_show_sourcelink": False,
    "html_static_path": ["static"],
    "html_css_files": ["site.css"],
    "myst_heading_anchors": 4,
    "default_role": "code",
    "autodoc_default_options": {"members": True, "inherited-members": "BaseEstimator"},
    "autodoc_typehints": "none",
    "toc_object_entries_show_parents": "hide",
    "numpydoc_show_class_members": False,
    # What is inherited refers to pages of scikit-learn; long tables of measurements are in no menu.
    "suppress_warnings": ["ref.ref", "ref.term", "toc.not_included"],
}
STYLE = """
dl.field-list { grid-template-columns: minmax(0, 1fr) !important; }
dd dt { flex-wrap: wrap; }
h1, .sig, .classifier, .pre { overflow-wrap: anywhere; }
.pre { white-space: pre-wrap !important; }
article img { max-width: min(100%, 30rem) !important; }
"""
"""Breaks long names and types, which a phone does not show otherwise; the theme's own rules are as strong.

Letters of pictures are as large as those of the text.
"""
UNITS = re.compile(r"(?<=\d) (?=%|(s|min|MiB|GiB)\b)")
"""The space between a number and its unit."""
IMAGE = re.compile(r'<img src="(\S+)" width="\d+" alt="([^"]*)">')
"""A picture whose width GitHub would not know otherwise."""
MARKS = re.compile(r"`[^`]*`|(?<=\w)_(?!\w)|[|*]|(?<=^[A-Z])\.")
"""Code, and what is plain text in a docstring and a mark in reStructuredText."""


def public_names() -> list[str]:
    """The public names that have a docstring."""
    import dkernel

    return sorted(name for name in dkernel.__all__ if name != "__version__")


def copy_pages(place: Path) -> None:
    """Copy the files that git knows, and append to each page of the menu the list of those under it.

    Tables are narrower on the site than on GitHub: there a number and its unit stay in one line.
    """
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in filter(None, listed.stdout.split("\0")):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, place / name)
        if name.endswith(".md"):
            lines = (ROOT / name).read_text(encoding="utf-8").split("\n")
            lines = [UNITS.sub("\u00a0", line) if line.startswith("|") else line for line in lines]
            (place / name).write_text(IMAGE.sub(r"![\2](\1)", "\n".join(lines)), encoding="utf-8")
    menu = [line.split() for line in MENU.replace("\n  ", " ").strip().splitlines()]
    lists = {page: [f"/{each}" for each in under] for _, page, *under in menu if under}
    for page, under in [("README", [f"{title} </{page}>" for title, page, *_ in menu]), *lists.items()]:
        with open(place / f"{page}.md", "a", encoding="utf-8") as file:
            file.write("\n".join(["", "```{toctree}", ":hidden:", *under, "```", ""]))


def write_api(place: Path, names: Sequence[str]) -> None:
    """Write a page for each name, and one that lists them, those that most people use first."""
    import dkernel

    (place / "api").mkdir()
    for name in names:
        kind = "module" if name == "errors" else "class" if name[0].isupper() else "function"
        text = f"{name}\n{'=' * len(name)}\n\n.. auto{kind}:: dkernel.{name}\n"
        (place / "api" / f"{name}.rst").write_text(text)
    usual = [name for name in names if name in dir(dkernel)]
    more = [name for name in names if name not in usual]
    lists = [[".. currentmodule:: dkernel"], [".. autosummary::", *usual], ["More\n----"] * bool(more)]
    lists += [[".. autosummary::", *more] if more else [], [".. toctree::\n   :hidden:", *names]]
    parts = [f"{head}\n\n" + "".join(f"   {name}\n" for name in under) for head, *under in filter(None, lists)]
    (place / "api" / "index.rst").write_text("API\n===\n\n" + "\n".join(parts))


def escape(app: Any, what: str, name: str, described: Any, options: Any, lines: list[str]) -> None:  # noqa: ARG001
    """Escape the marks in a docstring, but not in its examples."""
    end = lines.index("Examples") if "Examples" in lines else len(lines)
    plain = (MARKS.sub(lambda m: m[0] if m[0][0] == "`" else f"\\{m[0]}", line) for line in lines[:end])
    lines[:end] = [line.replace(" . ", " · ") for line in plain]  # a product, which would end a sentence


def build(place: Path, out: Path) -> int:
    """Make HTML of the pages in a folder; returns 1 after a warning."""
    from pygments.lexers import TextLexer
    from sphinx.application import Sphinx

    shutil.rmtree(out, ignore_errors=True)
    (place / "static").mkdir()
    (place / "static" / "site.css").write_text(STYLE)
    app = Sphinx(place, None, out, place / ".trees", "html", SETTINGS, status=None, warningiserror=True)
    app.connect("autodoc-process-docstring", escape, priority=100)  # before numpydoc
    app.add_lexer("mermaid", TextLexer)  # a diagram that GitHub alone draws
    app.build()
    return app.statuscode


def main(arguments: list[str] | None = None) -> int:
    """Copy the pages and write those of the names, and let Sphinx make the site."""
    ask = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ask.add_argument("--out", type=Path, default=Path("site"), help="the folder; it is replaced")
    args = ask.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        copy_pages(Path(folder))
        write_api(Path(folder), public_names())
        failed = build(Path(folder), args.out)
    shutil.copyfile(args.out / "README.html", args.out / "index.html")
    return failed


if __name__ == "__main__":
    sys.exit(main())
