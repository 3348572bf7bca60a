"""Bad inputs: labels. Classes that are missing, late, single, or named in an odd way."""

import numpy as np
import pandas as pd

from tests.bad_input.data import NAMES, ROWS, arrays, frame, one, three
from tests.bad_input.doors import Doors, lazy, learns
from tests.bad_input.table import BOTH, HANDLED, entries_of

bad = entries_of("labels")


@bad("one class", BOTH, "refused, the value is named; a regression predicts its one number, with a warning")
def one_class(at: Doors) -> None:
    said = ("'label'", "the one value 'in' in all 300 rows", "two classes")
    at.train_refuses(one(frame().assign(label="in")), *said)
    assert (at.trains(one(frame().assign(label=1.5))).predict(arrays()[0]) == 1.5).all()
    assert "one value in all rows" in at.said
    X, y = arrays()
    at.fit_refuses("(?i)one value|1 class", X, np.ones_like(y))


@bad("one class in a chunk", HANDLED, "classes are those of all chunks; sorted data are interleaved, with a message")
def one_class_in_a_chunk(at: Doors) -> None:
    data = pd.concat([frame(seed) for seed in range(3)], ignore_index=True).sort_values("label", kind="stable")

    def make(folder):
        for i, part in enumerate(np.array_split(np.arange(len(data)), 3)):
            data.iloc[part].to_csv(folder / f"{i}.csv", index=False)
        return [str(folder)]

    model = at.trains(make)
    assert model.classes.tolist() == ["in", "out"]
    assert learns(model) > 0.75
    X, y = arrays()
    order = np.argsort(y, kind="stable")
    fitted = at.fits(lazy(X[order]), lazy(y[order]))
    assert fitted.score(X, y) > 0.75


@bad("class first seen in a later chunk", HANDLED, "the survey reads all labels before anything is fitted")
def later(at: Doors) -> None:
    model = at.trains(three(".parquet", lambda f: f[2].loc.__setitem__((slice(100, None), "label"), "third")))
    assert model.classes.tolist() == ["in", "out", "third"]
    X, y = arrays()
    y = np.where(np.arange(400) > 350, 2, y.astype(int))
    assert at.fits(lazy(X), lazy(y)).classes_.tolist() == [0, 1, 2]


@bad(
    "class not seen in training",
    BOTH,
    "evaluate refuses it with its row, or with `--max-bad-rows N` leaves it out; score does not look at labels",
)
def unseen(at: Doors) -> None:
    data = frame(9)
    data.loc[41, "label"] = "inn"
    make = one(data)
    said = ["x.parquet, row 42", "label 'inn'", "in, out", "Did you mean 'in'?"]
    at._refused(tuple(said), "evaluate", at.model, *make(at.folder()))
    assert set(at.scores(make)["label"]) == {"in", "out"}
    numbers = one(data.assign(label=1))
    at._refused(("x.parquet, row 1", "text: in, out"), "evaluate", at.model, *numbers(at.folder()))


@bad("floats for classes", BOTH, "a floating label means a regression; `--task classify` takes the numbers as names")
def floats(at: Doors) -> None:
    data = frame().assign(label=lambda f: np.where(f["label"] == "in", 0.5, 1.5))
    assert at.trains(one(data)).task == "regress"
    model = at.trains(one(data), "--task", "classify")
    assert model.classes.tolist() == [0.5, 1.5]
    assert set(at.scores(one(data), model="m")["label"]) == {0.5, 1.5}
    at.train_refuses(one(frame(), ".parquet", "--task", "regress"), "label holds text")


@bad(
    "text with blanks",
    HANDLED,
    "every character counts: ' in', 'in ' and 'in' are three classes; '' is missing in a CSV",
)
def blanks(at: Doors) -> None:
    names = np.array([" in", "in ", "in\tside", "in"])
    data = frame().assign(label=names[np.arange(ROWS) % 4])
    for suffix in (".parquet", ".csv"):
        model = at.trains(one(data, suffix))
        assert model.classes.tolist() == sorted(names)
        assert set(at.scores(one(data, suffix), model="m")["label"]) <= set(names)
    X, _ = arrays()
    assert at.fits(X, names[np.arange(400) % 4]).classes_.tolist() == sorted(names)


@bad("class of one row", HANDLED, "it is a class, learned from its one row or, held out, from none")
def single(at: Doors) -> None:
    data = frame()
    data.loc[17, "label"] = "rare"
    model = at.trains(one(data))
    assert model.classes.tolist() == ["in", "out", "rare"]
    assert np.isfinite(model.coef).all()
    X, y = arrays()
    y = np.where(np.arange(400) == 17, 2, y.astype(int))
    fitted = at.fits(lazy(X), lazy(y))
    assert fitted.classes_.tolist() == [0, 1, 2]
    assert np.isfinite(fitted.component_coef_).all()


@bad(
    "continuous label for a classifier",
    BOTH,
    "refused: more values than classes can be; the command makes a regression",
)
def continuous(at: Doors) -> None:
    data = frame().assign(label=lambda f: f["a"])
    assert at.trains(one(data)).task == "regress"
    X, _ = arrays()
    at.fit_refuses("(?i)continuous", X, X[:, 0].astype(float), kinds=("numpy", "pandas"))
    n = 10_100
    many = pd.DataFrame(np.random.default_rng(0).normal(size=(n, 3)), columns=NAMES).assign(label=np.arange(n))
    at.train_refuses(one(many, ".parquet", "--task", "classify"), "'label'", "too many for classes")


@bad("other order of classes in each chunk", HANDLED, "classes are sorted, in any order of the chunks")
def other_order(at: Doors) -> None:
    X, _ = arrays()
    names = np.array(["z", "m", "a"])[np.digitize((X**2).sum(axis=1), [1.5, 3.5])]
    coefficients = []
    for order in (np.arange(400), np.arange(400)[::-1]):
        fitted = at.fits(lazy(X[order]), lazy(names[order]))
        assert fitted.classes_.tolist() == ["a", "m", "z"]
        coefficients.append(fitted.predict(X))
    assert (coefficients[0] == coefficients[1]).mean() > 0.9
