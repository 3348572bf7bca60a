"""Make a site of the pages that stand in the repository, with a page for each public name and a search.

Needs MkDocs: pip install '.[site]'. A warning, such as a link without a page, ends it with 1.

    python scripts/site.py                 # into the folder site
    python scripts/site.py --out public
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
SETTINGS = """\
site_name: dkernel
docs_dir: pages
site_dir: {out}
use_directory_urls: false
theme: {{name: mkdocs, navigation_depth: 3}}
plugins:
  - search
  - mkdocstrings:
      handlers:
        python:
          paths: ["{root}"]
          options: {{docstring_style: numpy, show_source: false, show_root_heading: true, heading_level: 1,
                     inherited_members: true, filters: ["!^_"],
                     docstring_options: {{warnings: false}}}}
nav:
{nav}
"""
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)#:\s]+)(?:#[^)]*)?\)")


def public_names() -> list[str]:
    """The public names that have a docstring."""
    import dkernel

    return sorted(name for name in dkernel.__all__ if name != "__version__")


def tracked_files(pattern: str) -> list[Path]:
    """The files of a pattern that git knows."""
    listed = subprocess.run(["git", "ls-files", pattern], cwd=ROOT, capture_output=True, text=True, check=True)
    return [Path(name) for name in listed.stdout.splitlines()]


def drop_links(text: str, page: Path) -> str:
    """The text of a page whose links to files that are no pages have become plain words."""

    def keep(found: re.Match[str]) -> str:
        target = (ROOT / page.parent / found[2]).resolve()
        return found[0] if target.suffix == ".md" and target.is_file() else found[1]

    return LINK.sub(keep, text)


def navigation(pages: list[Path]) -> Iterator[str]:
    """The lines of the table of contents: the first page, the other pages, the names."""
    yield "  - dkernel: README.md"
    yield "  - Pages:"
    for page in pages:
        if page != Path("README.md"):
            title = (ROOT / page).read_text(encoding="utf-8").split("\n", 1)[0].lstrip("# ")
            yield f'      - "{title}": {page}'
    yield "  - Python:"
    yield from (f"      - {name}: api/{name}.md" for name in public_names())


def main(arguments: list[str] | None = None) -> int:
    """Write the pages beside each other, and let MkDocs make the site."""
    ask = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ask.add_argument("--out", type=Path, default=Path("site"), help="the folder; it is replaced")
    args = ask.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        place, pages = Path(folder), tracked_files("*.md")
        for page in pages:
            target = place / "pages" / page
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(drop_links((ROOT / page).read_text(encoding="utf-8"), page), encoding="utf-8")
        for picture in tracked_files("*.png"):
            (place / "pages" / picture).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / picture, place / "pages" / picture)
        (place / "pages" / "api").mkdir()
        for name in public_names():
            (place / "pages" / "api" / f"{name}.md").write_text(f"::: dkernel.{name}\n")
        settings = SETTINGS.format(out=args.out.resolve(), root=ROOT, nav="\n".join(navigation(pages)))
        (place / "mkdocs.yml").write_text(settings)
        command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--clean", "-f", str(place / "mkdocs.yml")]
        return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
