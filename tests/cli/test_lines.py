"""Lines that the commands print: how long, how many, and of which words."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dkernel.errors
from dkernel.cli.train import train_command
from dkernel.errors import wrap_lines

README = Path(dkernel.__file__).parents[1] / "README.md"
SCIKIT_LEARN = """
accuracy alpha auc average_precision balanced_accuracy class classes classification classifier columns error estimator
feature features fit gamma gaussian group groups holdout importance importances kernel label labels laplacian levels
linear log_loss loss losses mean median metric missing model precision prediction predictions probability recall
regression residuals row rows rmse roc_auc sample scale score scores scoring standard test training
"""
COMPUTERS = (
    "checkpoint client core csv date dates disk file format formats kib memory mib scratch threads worker workers"
)
ENGLISH = """
a about add alike all alone also always among and answer any are as asked at average be best by came can cannot
capitals categories category cheap cheaper check choices choose chose chosen clear clearly code codes column compare
compared components consider constant converged cost costs depends determine did differ difference differences
different do each empty equal every exclude excluded far few field figure first fits for forget found frequent from
fully gain global good hardly has have help here heuristic holds how identifiers identity if important in instead into
is it its judge known last learn learned leave left little local looked lost matter may means merged month more most
much named near no none not nothing number numbers of on one only or order other others out peak people perhaps plan
predict predicted range read reading readings refused runner-up same says seconds see set sets settings setup show
shuffle shuffled simpler since single small smaller so some spaces stand stay such sure take taken tell text than that
the their them then there these they this time to together too train twice unlike used useful useless value values was
way were what when where which who with without worse write wrong year you
"""
DATA = """
basic plus premium customers m n no yes since plan age calls payment churned card debit id reason moved paid due
january february march april may june july august september october november december
"""


@pytest.fixture
def short_lines(monkeypatch):
    monkeypatch.setattr(dkernel.errors, "LINE_LENGTH", 100)


@pytest.fixture(scope="module")
def customers(tmp_path_factory):
    rng, n = np.random.default_rng(0), 3000
    calls, plan = rng.poisson(1.2, n), rng.choice(["basic", "plus", "premium"], n)
    table = pd.DataFrame({
        "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 1900, n), "D"),
        "plan": plan, "age": np.where(rng.random(n) < 0.04, np.nan, rng.normal(44, 15, n).round()),
        "calls": calls, "payment": rng.choice(["card", "debit"], n),
        "churned": np.where(rng.random(n) < 1 / (1 + np.exp(1.5 - calls - (plan == "premium"))), "yes", "no"),
    })  # fmt: skip
    path = tmp_path_factory.mktemp("data") / "customers.csv"
    table.to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def printed(customers, run_to):
    """What a first look, fit, test and score print, as users see it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dkernel.errors, "LINE_LENGTH", 100)
        patch.chdir(customers.parent)
        label = ["customers.csv", "--label", "churned"]
        commands = {
            "look": ["train", *label, "--dry-run"],
            "fit": ["train", *label, "--out", "m", "--report", "fit.html"],
            "all of it": ["train", *label, "--out", "n", "-v"],
            "test": ["evaluate", "m", "customers.csv", "--importance"],
            "score": ["score", "m", "customers.csv", "--out", "scores.csv"],
            "show": ["show", "m"],
        }
        found = {name: run_to(*words) for name, words in commands.items()}
        messy = pd.read_csv("customers.csv").assign(
            id=lambda t: [f"C{i}" for i in t.index], age=lambda t: t["age"].fillna(-999)
        )
        messy["reason"] = np.where(messy["churned"] == "yes", "moved", "")
        messy.loc[::9, "plan"], messy.loc[::8, "payment"] = "Basic ", "?"
        messy.to_csv("messy.csv", index=False)
        found["messy"] = run_to("train", "messy.csv", "--label", "churned", "--dry-run")
        messy["paid"] = "$1,000.50"
        messy.assign(due="26.05.2023").to_csv("refused.csv", index=False)
        found["refused"] = run_to("train", "refused.csv", "--label", "churned", "--out", "r", code=65)
        return found


def test_no_line_is_longer_than_a_hundred_characters(printed):
    lines = [line for done in printed.values() for line in (done.stdout + done.stderr).splitlines()]
    assert [line for line in lines if len(line) > 100] == []


def test_a_first_fit_prints_few_lines(printed):
    assert len(printed["fit"].stdout.splitlines()) <= 8
    assert len(printed["fit"].stderr.splitlines()) <= 6


def test_each_word_is_of_the_first_page_or_one_that_all_know(printed, customers):
    page, report = README.read_text(), (customers.parent / "fit.html").read_text().partition("<details>")[0]
    told = " ".join(re.findall(r"\*([a-z ]+)\*", page) + re.findall(r"^- `([A-Za-z]+)", page, re.MULTILINE))
    options = " ".join(f"{option.name} {option.name.replace('_', ' ')}" for option in train_command.params)
    known = set(" ".join((told, options, SCIKIT_LEARN, COMPUTERS, ENGLISH, DATA)).split())
    texts = {name: done.stdout + done.stderr for name, done in printed.items()}
    texts["report"] = re.sub(r"<style.*?</style>|<[^>]*>|&#?[a-z0-9]+;", " ", report, flags=re.DOTALL)
    words = {word: name for name, text in texts.items() for word in re.findall(r"\b[a-z][a-z_-]+\b", text.lower())}
    assert " ".join(sorted(words.keys() - known)) == ""


@pytest.mark.usefixtures("short_lines")
def test_values_and_commands_are_not_broken():
    told = wrap_lines("train: " + "'a b' has 28 % of them, " * 9 + "as said. To continue: train " + "x " * 60 + "y")
    *lines, last = told.split("\n")
    assert last == "  To continue: train " + "x " * 60 + "y"
    assert all(line.count("'") % 2 == 0 and not line.strip().startswith("%") for line in lines)
    assert all(len(line) <= 100 for line in lines)


@pytest.mark.usefixtures("short_lines")
@pytest.mark.parametrize("name", ["  error        ", "  rare classes  ", "    a_column_of_a_long_name  ", "warning: "])
def test_what_continues_a_line_is_indented_as_its_text(name):
    first, second = wrap_lines(name + "word " * 24 + "end").split("\n")
    assert len(second) - len(second.lstrip()) == (len(name) if "  " in name.strip() + "  " and name[0] == " " else 2)
    assert f"{first} {second.lstrip()}" == name + "word " * 24 + "end"
