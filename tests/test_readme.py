"""The pages: every block of code runs and prints what is shown, every link leads somewhere, and the tables that repeat
the code say what it says.
"""

import ast
import re
from pathlib import Path

import pytest

import dkernel
from dkernel.features.landmarks import RULES
from dkernel.kernels import Kernel
from tests.pages import ALL_PAGES, EXAMPLES, LANGUAGES, PAGES, ROOT, TO_RUN, Reader, blocks_of, differs, text_of
from tests.pages import option_table as table_of_options

# A list of changes grows, and so does the table of bad input.
LONGEST = {"README.md": 250}
LONG = 300


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    return Reader(tmp_path_factory.mktemp("pages"))


def named(example):
    marks = [pytest.mark.cluster] if example.cluster else []
    marks += [pytest.mark.slow] if example.mark.startswith("slow: ") else []
    return pytest.param(example, marks=marks, id=f"{example.page}:{example.line}".replace("/", "."))


@pytest.mark.parametrize("example", [named(example) for example in TO_RUN])
def test_every_block_runs(example, reader):
    reader.reach(example)


def test_what_is_not_run_says_why():
    left_out = [example for example in EXAMPLES if example not in TO_RUN]
    assert len(TO_RUN) >= 25
    assert len(left_out) <= 6
    for example in left_out:
        assert len(example.mark) > len("not run: ") + 10


@pytest.mark.parametrize("page", ALL_PAGES)
def test_a_page_is_short_and_its_blocks_are_known(page):
    assert len(text_of(page).splitlines()) <= LONGEST.get(page, LONG)
    assert {block.language for block in blocks_of(page)} <= LANGUAGES


def anchors(page):
    """The names of a page's headings, as GitHub makes them."""
    headings = re.findall(
        r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", text_of(page), flags=re.DOTALL | re.MULTILINE), re.M
    )
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", ALL_PAGES)
def test_every_link_leads_somewhere(page):
    folder = (ROOT / page).parent
    for target in re.findall(r"\]\(([^)\s]+)\)", text_of(page)):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        found = (folder / path).resolve() if path else ROOT / page
        assert found.exists(), f"{page}: {target}"
        if anchor:
            assert anchor in anchors(str(found.relative_to(ROOT))), f"{page}: {target}"


def test_the_first_page_names_all_pages():
    section = text_of("README.md").split("\n## All pages\n")[1].split("\n## ")[0]
    assert [page for page in ALL_PAGES if page != "README.md" and f"({page})" not in section] == []


@pytest.mark.parametrize("page", ALL_PAGES)
def test_files_that_it_names_are_there(page):
    for name in set(re.findall(r"\b(?:scripts|tests|dkernel)/[\w/]+\.(?:py|sh|toml)", text_of(page))):
        assert (ROOT / name).exists(), name


def skips(file):
    """True if a test of this file is skipped where something other than a package is missing."""
    text, calls = file.read_text(), ("skip", "skipif")
    return "skip" in text and any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in calls
        for node in ast.walk(ast.parse(text))
    )


def test_the_page_of_tests_names_those_that_may_be_skipped():
    names = {str(file.relative_to(ROOT)) for file in (ROOT / "tests").glob("**/test_*.py") if skips(file)}
    table = text_of("tests/README.md").split("is skipped and names it:")[1].split("\n## ")[0]
    assert set(re.findall(r"tests/[\w/]+\.py", table)) == names


def with_neighbours(script):
    """The text of a script and of the modules beside it that it imports."""
    text = text_of(script)
    names = re.findall(r"^(?:from|import) (\w+)", text, re.MULTILINE)
    folder = ROOT / Path(script).parent
    beside = [path for name in names for path in (folder / f"{name}.py", *(folder / name).glob("*.py"))]
    return text + "".join(path.read_text() for path in beside if path.is_file())


def test_every_picture_has_the_command_that_makes_it():
    commands = {line for page in ALL_PAGES for line in re.findall(r"`(python scripts/[^`]*)`", text_of(page))}
    commands = {line for line in commands if "..." not in line.split()[1]}
    for picture in sorted((ROOT / "scripts").rglob("*.png")):
        name = str(picture.relative_to(ROOT))
        scripts = {line: with_neighbours(line.split()[1]) for line in commands}
        assert [line for line, code in scripts.items() if name in line or f'"{picture.stem}' in code], (
            f"no page says how {name} is made"
        )


def test_code_cites_only_what_the_repository_has():
    for file in sorted((ROOT / "dkernel").rglob("*.py")):
        text = file.read_text()
        for name in re.findall(r"[\w/]+\.md\b", text):
            assert (ROOT / name).exists() or list(ROOT.glob(f"dkernel/**/{name}")), f"{file.name} cites {name}"
        assert not re.findall(r"\b[A-Z]{6,} \d+\.\d", text), f"{file.name} cites a section of a page that is not there"


def test_the_table_of_options_is_that_of_the_command():
    assert table_of_options() in text_of("dkernel/cli/OPTIONS.md"), "python -m tests.pages prints it"


def test_every_kernel_stands_in_the_table():
    table = [line for line in text_of("dkernel/kernels/README.md").splitlines() if line.startswith("|")]
    public = [getattr(dkernel, name) for name in dkernel.__all__]
    kernels = [cls.__name__ for cls in public if isinstance(cls, type) and issubclass(cls, Kernel)]
    assert len(kernels) >= 19
    assert [name for name in kernels if f"`{name}(" not in "\n".join(table)] == []
    landmarks = text_of("dkernel/features/README.md")
    assert [rule for rule in RULES if f"| {rule} |" not in landmarks] == []


def test_an_output_is_compared():
    assert differs("4 rows in 2.1 s, loss 0.251\n", "4 rows in 19 s, loss 0.249\n") == ""
    assert differs("a\n...\nz\n", "a\nb\nc\nz\n") == ""
    assert differs("loss 0.25\n", "loss 0.35\n") == "'0.25' is shown and '0.35' printed"
    assert differs("5 rows\n", "6 rows\n") == "'5' is shown and '6' printed"
    assert differs("done\n", "failed\n").startswith("shown:\ndone")


def test_pages_are_found():
    assert {"README.md", "dkernel/TOUR.md", "dkernel/cli/README.md", "tests/README.md"} <= set(PAGES)
