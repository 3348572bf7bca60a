"""Tables that are not numbers alone: categories, dates, folders of values, and what people do with models of them."""

import json
import shutil
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

import dkernel
from tests.bad_input.data import NAMES, ROWS, Make, frame, one, text, with_column
from tests.bad_input.doors import Doors
from tests.bad_input.table import BOTH, HANDLED, REFUSED, entries_of

bad = entries_of("tables")


def words(*levels: str, seed: int = 5, rows: int = ROWS) -> np.ndarray:
    return np.random.default_rng(seed).choice(levels, rows)


def arrow(**columns: object) -> Make:
    """One Parquet file as pandas writes it."""

    def make(folder: Path) -> list[str]:
        pq.write_table(pa.Table.from_pandas(with_column(**columns), preserve_index=False), folder / "x.parquet")
        return [str(folder / "x.parquet")]

    return make


def of_words(at: Doors) -> str:
    """The file of a model of a text `s` beside the numbers."""
    at.trains(arrow(s=words("x", "y", "z")))
    shutil.copy("m", at.place / "words")
    return str(at.place / "words")


def filled(at: Doors, model: str, make: Make) -> dict:
    """The values of a file that training never saw, as the manifest of its scores counts them."""
    result = at.run("score", model, *make(at.folder()), "--out", "s", "--overwrite", "--quiet")
    assert result.exit_code == 0, result.output
    at.handled += 1
    return json.loads(Path("s/_manifest.json").read_text())["filled"]


@bad("category that training never saw", HANDLED, "its inputs are 0, and it is counted; a warning where most are")
def unknown(at: Doors) -> None:
    model = of_words(at)
    assert filled(at, model, arrow(s=words("x", "y", "new"))).keys() == {"unknown"}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert np.isfinite(dkernel.load(model).decision_function(with_column(s="new")[[*NAMES, "s"]])).all()
    assert any("'s': more than half of the values" in str(warning.message) for warning in told)


@bad("category missing where training had all", HANDLED, "its inputs are 0, and it is counted by column")
def absent(at: Doors) -> None:
    gap = pd.Series(words("x", "y")).where(np.arange(ROWS) != 7)
    assert filled(at, of_words(at), arrow(s=gap)) == {"missing": {"s": 1}}


@bad(
    "category of many values",
    HANDLED,
    "the 100 most frequent have inputs; all have label means where these say something",
)
def many(at: Doors) -> None:
    found = at.trains(arrow(s=[f"v{i % 140}" for i in range(ROWS)])).encoding.columns[-1]
    assert (len(found.levels), found.means.outputs) == (100, ())


@bad("text that is never the same twice", HANDLED, "a warning that it is an identifier")
def identifiers(at: Doors) -> None:
    at.trains(arrow(s=[f"row {i}" for i in range(ROWS)]))
    assert "hardly a value came twice, so exclude them" in at.said


@bad("column without a value", HANDLED, "a warning; its inputs are the same in all rows")
def empty(at: Doors) -> None:
    at.trains(arrow(s=np.full(ROWS, np.nan)))
    assert "s: no row has a value" in at.said


@bad(
    "words for missing values in a CSV",
    HANDLED,
    "empty fields, NA, null, None, nan, `\\N` and the like are missing; `?`, `-`, `.`, `n.a.` among numbers and dates",
)
def missing_words(at: Doors) -> None:
    missing = ("", "NA", "null", "None", "nan", "N/A", "NaT", "\\N")
    numbers = ("?", "-", "--", ".", "na", "n.a.", "none")
    more = {
        f"{kind}{i}": frame()["b"] if kind == "n" else words("x", "y") for i in range(len(missing)) for kind in "ns"
    }
    data = with_column(**more).astype(dict.fromkeys(more, object))
    for i, word in enumerate(missing):
        data.loc[5, [f"n{i}", f"s{i}"]] = word
    found = set(at.trains(one(data, ".csv")).encoding.names)
    for i, word in enumerate(missing):
        assert found >= {f"n{i}", f"n{i}=missing", f"s{i}=x", f"s{i}=y", f"s{i}=missing"}, word
    assert not any(word in name for name in found for word in missing[1:])
    for word in numbers:
        data = with_column(n=frame()["b"], s=words("x", "y")).astype({"n": object})
        data.loc[5, ["n", "s"]] = word
        assert {"n", "n=missing", f"s={word}"} <= set(at.trains(one(data, ".csv")).encoding.names), word


@bad("empty text in a category", HANDLED, "a missing value, in files of every format")
def empty_text(at: Doors) -> None:
    for suffix in (".csv", ".parquet"):
        assert at.trains(one(with_column(s=words("", "x")), suffix)).encoding.names[-2:] == ("s=x", "s=missing")


@bad("NaN, None and NA in one column", HANDLED, "all are missing values")
def kinds_of_missing(at: Doors) -> None:
    column = pd.Series(words("x", "y"), dtype=object)
    column[3], column[4], column[5] = None, np.nan, pd.NA
    data = with_column(s=column)
    found = at.fits(data[[*NAMES, "s"]], data["label"]).model_.encoding
    assert found.names[-1] == "s=missing"


@bad("category of another type than in training", HANDLED, "1, 1.0 and '1' are one value, and other spellings too")
def other_type(at: Doors) -> None:
    codes = np.arange(ROWS) % 3
    at.trains(arrow(s=codes), "--categorical", "s")
    shutil.copy("m", at.place / "codes")
    expected = at.scores(arrow(s=codes), model=at.place / "codes")
    for form in (codes.astype(float), codes.astype(str), pd.Categorical(codes, [2, 1, 0, 9])):
        pd.testing.assert_frame_equal(at.scores(arrow(s=form), model=at.place / "codes"), expected)
    at.trains(arrow(s=codes == 1), "--categorical", "s")
    shutil.copy("m", at.place / "truths")
    expected = at.scores(arrow(s=codes == 1), model=at.place / "truths")
    for form in (np.where(codes == 1, "true", "FALSE"), (codes == 1).astype(float)):
        pd.testing.assert_frame_equal(at.scores(arrow(s=form), model=at.place / "truths"), expected)


@bad("category without some of its levels", HANDLED, "levels are the values that came, not those that are declared")
def unused(at: Doors) -> None:
    column = pd.Categorical(words("x", "y"), ["w", "x", "y", "z"])
    assert at.trains(arrow(s=column)).encoding.columns[-1].levels == ("x", "y")


@bad("category named that is not there", REFUSED, "`--categorical` names the column that was meant")
def not_there(at: Doors) -> None:
    at.train_refuses(one(frame(), ".parquet", "--categorical", "bb"), "has no feature 'bb', named by categorical")


@bad("word among dates", REFUSED, "file, row and column are named", rejects=True)
def word_among_dates(at: Doors) -> None:
    days = pd.Series(pd.Timestamp("2026-01-01") + pd.to_timedelta(np.arange(ROWS) % 40, "D")).astype(str)
    at.trains(one(with_column(s=days), ".csv"))
    at.handled -= 1
    model = shutil.copy("m", at.place / "dates")
    days[9] = "soon"
    odd = with_column(s=days)

    at.model = model
    at.score_refuses(one(odd, ".csv"), "x.csv, ", "column 's'", "'soon' is not a date or time")
    at.score_rejects(one(odd, ".csv"), ROWS - 1, "soon")


@bad("parts of a second beyond microseconds", HANDLED, "cut off in features; kept columns keep their text")
def nanoseconds(at: Doors) -> None:
    times = [f"2024-03-01T10:00:{i % 60:02d}.123456789Z" for i in range(ROWS)]
    model = at.trains(one(with_column(s=times), ".csv"))
    assert model.encoding.columns[-1].kind == "date"
    assert at.scores(one(with_column(s=times), ".csv"), "--keep", "s", model="m")["s"].tolist() == times


@bad("lists in a column", REFUSED, "the column is named, with what to make of it")
def nested(at: Doors) -> None:
    for value in ([1.0, 2.0], {"a": 1}):
        at.train_refuses(
            arrow(s=[value] * ROWS), "x.parquet, column 's': it holds values of another type", "make columns of"
        )


@bad("number in one file, text in another", REFUSED, "the file and the column are named")
def two_types(at: Doors) -> None:
    def make(folder: Path) -> list[str]:
        frame().to_parquet(folder / "1.parquet")
        with_column(b=words("x", "y")).to_parquet(folder / "2.parquet")
        return [str(folder)]

    at.train_refuses(make, "2.parquet, column 'b': it holds text")


@bad("label of thousands of whole numbers", BOTH, "refused until `--task` says whether these are classes")
def prices(at: Doors) -> None:
    data = frame().assign(label=np.arange(ROWS) * 7)
    for more in ((), ("--dry-run",)):
        at.train_refuses(one(data, ".parquet", *more), "300 different whole numbers", "--task regress")
    assert at.trains(one(data, ".parquet", "--task", "regress")).classes is None


@bad("label of floating 0 and 1", HANDLED, "a regression, with a warning that names the option for classes")
def floating(at: Doors) -> None:
    data = frame().assign(label=lambda f: (f["label"] == "in").astype(float))
    assert at.trains(one(data)).classes is None
    assert "--task classify" in at.said


@bad("label that a feature copies", HANDLED, "a warning with the names of such features")
def copied(at: Doors) -> None:
    at.trains(arrow(s=frame()["label"].str.upper()))
    assert "too good     s: alone says the label on 300 rows" in at.said


@bad("label missing in some rows", BOTH, "refused with file and row; `--max-bad-rows N` leaves such rows out")
def no_label(at: Doors) -> None:
    data = frame()
    data.loc[7, "label"] = None
    at.train_refuses(one(data, ".csv"), "x.csv, row 8, column 'label'", "--max-bad-rows")
    at.train_refuses(one(data, ".parquet"), "x.parquet, row 8, column 'label'")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they are told of
        found = at.trains(one(data, ".csv", "--max-bad-rows", "1"))
    np.testing.assert_array_equal(found.coef, at.trains(one(data.drop(index=7), ".csv")).coef)


@bad("CSV without names", BOTH, "a first row of numbers is refused; `--no-header` reads it")
def no_names(at: Doors) -> None:
    content = frame().assign(label=lambda f: (f["label"] == "in").astype(int)).to_csv(index=False, header=False)
    at.train_refuses(text(content, "x.csv", "--label", "3"), "the first row holds numbers", "--no-header")
    assert at.trains(text(content, "x.csv", "--label", "3", "--no-header")).columns == ("0", "1", "2")


@bad("CSV with another delimiter", HANDLED, "found in the first row: a semicolon, a tab or a bar")
def delimiters(at: Doors) -> None:
    plain = at.trains(one(frame(), ".csv"))
    for sign in ";\t|":
        found = at.trains(text(frame().to_csv(index=False, sep=sign)))
        np.testing.assert_array_equal(found.coef, plain.coef)
        given = at.trains(text(frame().to_csv(index=False, sep=sign)), "--delimiter", sign)
        np.testing.assert_array_equal(given.coef, plain.coef)


@bad("folder with folders of no values", REFUSED, "the folder inside is named, and a glob for its files")
def folders(at: Doors) -> None:
    def make(folder: Path) -> list[str]:
        (folder / "d" / "train").mkdir(parents=True)
        frame().to_parquet(folder / "d" / "train" / "x.parquet")
        return [str(folder / "d")]

    at.train_refuses(make, "the folder holds folders", "/*/*'")


@bad("model that is there already", BOTH, "refused; `--overwrite` replaces it")
def there(at: Doors) -> None:
    at.trains(one(frame()))
    shutil.copy("m", "refused")
    at.train_refuses(one(frame()), "refused already exists", "--overwrite")


@bad("columns that training passed over", HANDLED, "the label, the weight and what was excluded are known to the model")
def passed_over(at: Doors) -> None:
    data = with_column(id=np.arange(ROWS), w=1.0)
    at.trains(one(data, ".parquet", "--exclude", "id", "--weight", "w"))
    assert len(at.scores(one(data), model="m")) == ROWS
