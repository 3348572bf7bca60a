"""The five texts behind dkernel, line by line: what each says, what dkernel measures, and whether it holds.

Prints the tables, draws the pictures and writes the list scripts/bench/SOURCES.md. Costs are CPU seconds and exponents
are fitted to them, so a busy machine changes them little. `--small` has smaller sizes and writes nothing unless --out
names a folder.

    python scripts/sources.py
    python scripts/sources.py --small
    python scripts/sources.py --text 001 --rows 100000    # the blog's own size: the exact machine alone takes minutes
"""

import argparse
import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from picture import draw  # noqa: E402
from texts import belkin, bellet, cambridge, fabien, zhang  # noqa: E402
from texts.rows import Table  # noqa: E402

TEXTS = {"000": bellet, "001": fabien, "002": belkin, "003": zhang, "004": cambridge}
WORDS = {True: "holds", False: "does not hold", None: "not measured here"}


def lines(table: Table) -> Iterator[str]:
    """A table as Markdown."""
    yield f"## {table.number}: {table.title}"
    yield ""
    yield "| where | the text says | dkernel | |"
    yield "|---|---|---|---|"
    for row in table.rows:
        cells = (row.place, row.says, row.measured, WORDS[row.holds])
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
    yield ""
    for picture in table.pictures:
        yield f"![{picture.title}](figures/{picture.name}.png)"
        yield ""


def page(tables: list[Table], command: str) -> str:
    """The page: what each text says, and the figures of what does not hold or is not measured."""
    rows = [row for table in tables for row in table.rows]
    holds, fails, unknown = (sum(row.holds is key for row in rows) for key in WORDS)
    parts = [
        "# The five texts, line by line\n",
        f"Written by `{command}`, which prints the figures of every line; `--text 000` runs one text alone. {holds} "
        f"lines hold, {fails} do not and {unknown} are not measured. A line without a remark holds.\n",
    ]
    for table in tables:
        parts.append(f"## {table.number}: {table.title}\n")
        for row in table.rows:
            remark = "" if row.holds else f" **{WORDS[row.holds].capitalize()}**: {row.measured}."
            parts.append(f"- {row.place}: {row.says}.{remark}")
        parts += [f"\n![{picture.title}](figures/{picture.name}.png)" for picture in table.pictures]
        parts.append("")
    return "\n".join(parts).rstrip() + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Run the texts, print their tables and write the page."""
    ask = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ask.add_argument("--small", action="store_true", help="smaller sizes, under a minute")
    ask.add_argument("--text", choices=sorted(TEXTS), help="one text alone; writes no page")
    ask.add_argument("--rows", type=int, default=20_000, help="rows of the table of 001; the blog has 100,000")
    ask.add_argument(
        "--out", type=Path, help="folder of the page and of figures/; scripts/bench unless --small or --text"
    )
    ask.add_argument("--json", action="store_true", help="print one JSON object in place of the tables")
    args = ask.parse_args(arguments)
    warnings.filterwarnings("ignore", category=UserWarning)  # solvers that end by their passes
    tables = []
    for number in [args.text] if args.text else TEXTS:
        more = {"rows": args.rows} if number == "001" else {}
        tables.append(TEXTS[number].run(args.small, **more))
        if not args.json:
            print("\n".join(lines(tables[-1])), flush=True)
    if args.json:
        rows = [{"text": table.number, **vars(row)} for table in tables for row in table.rows]
        print(json.dumps({"rows": rows}))
    out = args.out or (None if args.small or args.text else HERE / "bench")
    if out is not None:
        (out / "figures").mkdir(parents=True, exist_ok=True)
        for picture in [picture for table in tables for picture in table.pictures]:
            draw(picture, out / "figures" / f"{picture.name}.png")
        flags = " --small" if args.small else ""
        (out / "SOURCES.md").write_text(page(tables, f"python scripts/sources.py{flags}"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
