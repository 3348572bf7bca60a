"""Mixed tables as they come, adult (CSV), diamonds (Parquet) and made ones, beside trees with native categories.

Nothing is given but the label, and the task of an integer price. Each is trained by the command and from pandas. The
error is in percent for classes, and RMSE over the label's standard deviation for regression. Made are rentals by hour,
with a date, texts and missing values, of which trees get year, month, weekday and hour as numbers, and a category of
500 values, of which trees get scikit-learn's TargetEncoder.

    python scripts/bench/tables.py --only diamonds
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from data import advice
from report import error_of, finish, measure_block, parser
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.model_selection import KFold
from sklearn.preprocessing import TargetEncoder

from dkernel import KernelClassifier, KernelRegressor

CASES = {
    "adult": ("income", ".csv", False),
    "diamonds": ("price", ".parquet", True),
    "rentals": ("rentals", ".parquet", True),
    "shops": ("sales", ".parquet", True),
}
ROWS = 12_000  # of a made table, and a quarter to test


def rentals(n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Logarithms of rentals by hour: rush hours of working days, the season, the weather, and a trend of two years."""
    begin = pd.Timestamp("2022-01-01")
    when = begin + pd.to_timedelta(rng.integers(0, 2 * 365 * 24, n), "h")
    hour, work = when.hour.to_numpy(), when.day_of_week.to_numpy() < 5
    season = np.cos(2 * np.pi * (when.day_of_year.to_numpy() - 20) / 365)
    warm = 12 - 11 * season + 3 * np.sin(2 * np.pi * (hour - 9) / 24) + 2.5 * rng.normal(size=n)
    sky = rng.choice(["clear", "clouds", "rain", "snow"], n, p=[0.5, 0.3, 0.17, 0.03])
    station = rng.choice(["north", "south", "harbour", "campus", "old town"], n)
    rush = np.exp(-0.5 * ((hour - 8) / 1.3) ** 2) + 1.2 * np.exp(-0.5 * ((hour - 17.5) / 1.8) ** 2)
    level = 0.15 + np.where(work, 1.6 * rush, 0) + np.where(work, 0.4, 1.3) * np.exp(-0.5 * ((hour - 14) / 3.5) ** 2)
    level *= np.clip(0.2 + 0.05 * warm, 0.05, 1.6) * pd.Series(sky).map({"rain": 0.5, "snow": 0.25}).fillna(1.0)
    level *= np.where(station == "campus", np.where(work, 1.5, 0.4), 1.0) * (1 + 0.1 * (when - begin).days / 365)
    frame = pd.DataFrame({"when": when, "warm": warm, "sky": sky, "station": station})
    frame.loc[rng.random(n) < 0.05, "warm"] = np.nan
    return frame.assign(rentals=np.log1p(rng.poisson(40 * level)))


def shops(n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Sales of 500 shops, each with an effect of its own that the price bends."""
    effects = np.random.default_rng(99).normal(size=500)
    shop = rng.choice(500, n, p=np.random.default_rng(98).dirichlet(np.full(500, 2.0)))
    frame = pd.DataFrame(
        {"shop": [f"shop {i}" for i in shop], "price": rng.normal(size=n), "stock": rng.normal(size=n)}
    )
    sales = effects[shop] * (1 + 0.3 * np.sin(2 * frame["price"])) + 0.5 * np.sin(2 * frame["stock"]) * frame["price"]
    return frame.assign(sales=sales + 0.3 * rng.normal(size=n))


MADE = {"rentals": rentals, "shops": shops}


def write_set(name: str, place: Path) -> Path:
    """The folder of a made table."""
    place.mkdir()
    for part, rows, seed in (("train", ROWS, 0), ("test", ROWS // 4, 1)):
        MADE[name](rows, np.random.default_rng(seed)).to_parquet(place / f"{part}.parquet", index=False)
    return place


def for_trees(name: str, X: pd.DataFrame, y: pd.Series, X_test: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """What trees are given of dates and of many values."""
    if name == "shops":
        encoder = TargetEncoder(cv=KFold(5, shuffle=True, random_state=0))
        learn = encoder.fit_transform(X[["shop"]].astype(str), y)[:, 0]
        return X.assign(shop=learn), X_test.assign(shop=encoder.transform(X_test[["shop"]].astype(str))[:, 0])

    def parts(table: pd.DataFrame) -> pd.DataFrame:
        for date in table.columns[table.dtypes.map(lambda dtype: dtype.kind == "M")]:
            column = table.pop(date)
            found = {part: getattr(column.dt, part) for part in ("year", "month", "day_of_week", "hour")}
            table = table.assign(seconds=(column - pd.Timestamp(0)) / pd.Timedelta(1, "s"), **found)
        return table

    return parts(X.copy()), parts(X_test.copy())


def read(path: Path) -> pd.DataFrame:
    """A table with its texts as categories."""
    table = pd.read_csv(path) if path.suffix == ".csv" else pd.read_parquet(path)
    texts = [name for name, dtype in table.dtypes.items() if dtype.kind not in "biufM"]
    return table.astype(dict.fromkeys(texts, "category"))


def by_command(place: Path, label: str, suffix: str, regress: bool, seed: int) -> dict[str, float]:
    """Error and seconds of `dkernel train` and `dkernel evaluate`."""
    dkernel = [sys.executable, "-Pm", "dkernel"]
    more = ["--seed", str(seed), *(["--task", "regress"] if regress else [])]
    with tempfile.TemporaryDirectory() as where, measure_block() as fit:
        model = f"{where}/model"
        subprocess.run(
            [*dkernel, "train", f"{place}/train{suffix}", "--label", label, *more, "--out", model, "--quiet"],
            check=True,
        )
        said = subprocess.run(
            [*dkernel, "evaluate", model, f"{place}/test{suffix}", "--json", "--quiet"], check=True, capture_output=True
        )
    figures = json.loads(said.stdout)
    deviation = read(place / f"test{suffix}")[label].std(ddof=0) if regress else 1.0
    return {"error": figures["rmse"] / deviation if regress else 100 * figures["error"], "seconds": fit.seconds}


def run_one(name: str, place: Path, seed: int) -> dict[str, Any]:
    """One line of the table."""
    label, suffix, regress = CASES[name]
    learn, test = read(place / f"train{suffix}"), read(place / f"test{suffix}")
    X, y, X_test, y_test = learn.drop(columns=label), learn[label], test.drop(columns=label), test[label]
    command = by_command(place, label, suffix, regress, seed)
    machine = (KernelRegressor if regress else KernelClassifier)(random_state=seed)
    with measure_block() as fit:
        machine.fit(X, y if regress else y.astype(str))
    trees: Any = HistGradientBoostingRegressor if regress else HistGradientBoostingClassifier
    with measure_block() as boosting:
        learned, new = for_trees(name, X, y, X_test)
        boosted = trees(categorical_features="from_dtype", random_state=seed).fit(learned, y)
    theirs = error_of(boosted.predict(new), y_test, regress)
    mine = error_of(machine.predict(X_test), y_test, regress)
    return {
        "data": name,
        "command": round(command["error"], 4),
        "pandas": round(mine, 4),
        "trees": round(theirs, 4),
        "ratio": round(max(command["error"], mine) / theirs, 3),
        "seconds": round(fit.seconds, 1),
        "trees_seconds": round(boosting.seconds, 1),
    }


def main(arguments: list[str] | None = None) -> int:
    ask = parser(__doc__, data=True)
    ask.add_argument("--only", nargs="+", choices=list(CASES), default=list(CASES))
    ask.add_argument("--seed", type=int, default=0)
    args = ask.parse_args(arguments)
    there = [name for name in args.only if name in MADE or (args.data / name / f"train{CASES[name][1]}").is_file()]
    if not there:
        print(advice(args.data, args.only), file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        places = {name: write_set(name, Path(folder, name)) if name in MADE else args.data / name for name in there}
        lines = [run_one(name, place, args.seed) for name, place in places.items()]
    finish("mixed tables, defaults alone", lines, args.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
