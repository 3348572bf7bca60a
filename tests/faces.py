"""The faces of a fit, Python and the command, asked in the same words, so that one test asks both."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner

import dkernel
from dkernel import KernelClassifier, KernelRegressor
from dkernel.cli import main
from dkernel.errors import DKernelError

# Parameter of the estimators -> option of the command, where it is another word.
OPTIONS = {"random_state": "seed", "categorical_features": "categorical"}


@dataclass(frozen=True)
class Python:
    """The estimators on a table of pandas."""

    folder: Path

    def fit(self, table: pd.DataFrame, label: str, **settings: Any) -> Path:
        """The file of the model that a fit with these settings makes.

        `weight` and `group` are names of columns that are no features, `judges` is a table to judge by.
        """
        aside = {name: settings.pop(name) for name in ("weight", "group", "judges") if name in settings}
        machine = (KernelRegressor if table[label].dtype.kind == "f" else KernelClassifier)(**settings)
        X = table.drop(columns=[label, *(aside[name] for name in ("weight", "group") if name in aside)])
        more = {"sample_weight": table[aside["weight"]]} if "weight" in aside else {}
        more |= {"groups": table[aside["group"]]} if "group" in aside else {}
        more |= {"eval_set": (aside["judges"][X.columns], aside["judges"][label])} if "judges" in aside else {}
        dkernel.save(machine.fit(X, table[label], **more), self.folder / "python")
        return self.folder / "python"

    def refuses(self, words: str, table: pd.DataFrame, label: str, **settings: Any) -> None:
        """A fit is refused by one of dkernel's errors, in these words."""
        with pytest.raises(DKernelError) as refused:
            self.fit(table, label, **settings)
        assert words in str(refused.value)


@dataclass(frozen=True)
class Command:
    """`dkernel train` on a file of Parquet."""

    folder: Path

    def _train(self, table: pd.DataFrame, label: str, settings: dict[str, Any]) -> Any:
        files = {"rows": table} | ({"judges": settings.pop("judges")} if "judges" in settings else {})
        for name, rows in files.items():
            rows.to_parquet(self.folder / f"{name}.parquet", index=False)
        words = ["--eval-set", self.folder / "judges.parquet"] if "judges" in files else []
        if "group" in settings:
            words += ["--holdout-by", f"group:{settings.pop('group')}"]
        for name, value in settings.items():
            said = ",".join(value) if isinstance(value, list) else "none" if value is None else value
            said = "=".join(*value.items()) if isinstance(value, dict) else said
            words += [f"--{OPTIONS.get(name, name).replace('_', '-')}", said]
        job = ["train", self.folder / "rows.parquet", "--label", label, "--out", self.folder / "command", "--overwrite"]
        return CliRunner().invoke(main, [str(word) for word in (*job, "--quiet", *words)])

    def fit(self, table: pd.DataFrame, label: str, **settings: Any) -> Path:
        """The file of the model that the command makes."""
        done = self._train(table, label, settings)
        assert done.exit_code == 0, done.output
        return self.folder / "command"

    def refuses(self, words: str, table: pd.DataFrame, label: str, **settings: Any) -> None:
        """The command ends with a code that says why, and the words in its one line."""
        done = self._train(table, label, settings)
        assert done.exit_code in (1, 2, 65), done.output
        assert words in done.stderr
        assert "Traceback" not in done.stderr
