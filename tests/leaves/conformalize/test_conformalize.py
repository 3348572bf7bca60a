"""`conformalize` and `score --group`: every group of rows is covered by itself, as the estimators have it."""

import json

import numpy as np
import pandas as pd
import pytest

import dkernel

QUICK = ["--kernel", "gaussian", "--gamma", "0.3", "--n-components", "48", "--alpha", "1e-4", "--metric", "identity"]
QUICK += ["--local", "none", "--quiet"]


def rows(n, seed):
    """A target whose noise depends on the site, which is no feature."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, 2))
    site = rng.choice([1, 2, 30], n)
    y = np.sin(2 * X[:, 0]) + 0.1 * np.sqrt(site) * rng.normal(size=n)
    return pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "site": site, "y": y, "kind": np.where(y > 0, "up", "down")})


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("groups")
    for name, n in (("train", 2000), ("known", 3000), ("new", 3000)):
        rows(n, n + len(name)).to_parquet(folder / f"{name}.parquet")
    return folder


@pytest.fixture(scope="module")
def regression(run_to, place):
    run_to("train", place / "train.parquet", "--label", "y", "--exclude", "site,kind", "--out", place / "m", *QUICK)
    return place / "m"


GROUPS = ["--group", "site", "--exclude", "kind"]


@pytest.fixture(scope="module")
def grouped(run_to, place, regression):
    """The model with the conformity scores of each site."""
    out = place / "grouped"
    done = run_to("conformalize", regression, place / "known.parquet", *GROUPS, "--out", out)
    assert done.stdout == f"{out}: intervals by 3,000 rows of 3 groups\n"
    return out


@pytest.mark.parametrize(("command", "phase"), [("conformalize", "conformity scores"), ("update", "read new rows")])
def test_a_reading_says_its_share_of_the_rows(run_to, place, regression, tmp_path, command, phase):
    words = (command, regression, place / "known.parquet", "--exclude", "site,kind", "--out", tmp_path / "m")
    events = [json.loads(line) for line in run_to(*words, "--progress", "json").stderr.splitlines() if line[0] == "{"]
    (end,) = (event for event in events if (event["event"], event.get("phase")) == ("end", phase))
    assert end["rows"] == end["total_rows"] == 3000


def test_every_group_has_intervals_of_its_own(run_to, place, regression, grouped, tmp_path):
    scores = tmp_path / "scores.parquet"
    run_to("score", grouped, place / "new.parquet", "--write", "interval", "--group", "site", "--exclude", "kind,y",
               "--out", scores)  # fmt: skip
    found, new = pd.read_parquet(scores), pd.read_parquet(place / "new.parquet")
    assert list(found.columns) == ["site", "lower", "upper"]
    width = found["upper"] - found["lower"]
    for site in (1, 2, 30):
        some = new["site"] == site
        within = (found["lower"] <= new["y"]) & (new["y"] <= found["upper"])
        assert within[some].mean() == pytest.approx(0.9, abs=0.04)
    assert width[new["site"] == 30].mean() > 2 * width[new["site"] == 1].mean()
    machine = dkernel.load(regression).conformalize(
        *(pd.read_parquet(place / "known.parquet")[names] for names in (["a", "b"], "y")),
        groups=pd.read_parquet(place / "known.parquet")["site"],
    )
    same = machine.predict_interval(new[["a", "b"]], groups=new["site"])
    np.testing.assert_array_equal(found[["lower", "upper"]].to_numpy(), same)


def test_sets_of_groups_and_without_them(run_to, place, tmp_path):
    model, out, scores = tmp_path / "m", tmp_path / "m2", tmp_path / "s.csv"
    run_to("train", place / "train.parquet", "--label", "kind", "--exclude", "site,y", "--out", model, *QUICK)
    plain = run_to("conformalize", model, place / "known.parquet", "--exclude", "site,y", "--out", out, "--json")
    assert json.loads(plain.stdout) == {"rows": 3000, "groups": []}
    done = run_to("conformalize", model, place / "known.parquet", "--group", "site", "--exclude", "y", "--out", out,
                  "--overwrite")  # fmt: skip
    assert done.stdout == f"{out}: sets of classes by 3,000 rows of 3 groups\n"
    args = ["score", out, place / "new.parquet", "--exclude", "kind,y", "--write", "set", "--out", scores]
    run_to(*args, "--group", "site", "--by-class")
    found, new = pd.read_csv(scores), pd.read_parquet(place / "new.parquet")
    own = np.where(new["kind"] == "up", found["set_up"], found["set_down"]).astype(bool)
    for site in (1, 30):
        assert own[new["site"] == site].mean() == pytest.approx(0.9, abs=0.04)


def test_dkernel_score_writes_intervals_of_groups(place, grouped, tmp_path):
    asked = {"write": ["interval"], "coverage": 0.5, "group": "site", "exclude": ["kind", "y"]}
    found = dkernel.score(grouped, place / "new.parquet", tmp_path / "s", **asked)
    assert found.columns == ("site", "lower", "upper")
    new = pd.read_parquet(place / "new.parquet")
    ends = pd.read_parquet(tmp_path / "s")
    assert ((ends["lower"] <= new["y"]) & (new["y"] <= ends["upper"])).mean() == pytest.approx(0.5, abs=0.05)


def test_the_same_bytes_whatever_the_files(run_to, place, regression, grouped, tmp_path):
    known = pd.read_parquet(place / "known.parquet")
    (tmp_path / "files").mkdir()
    for i in range(3):
        known[1000 * i : 1000 * (i + 1)].to_parquet(tmp_path / f"files/{i}.parquet")
    known.assign(site=known["site"].astype(float).astype(str)).to_csv(tmp_path / "text.csv", index=False)
    for files in ("files", "text.csv"):
        run_to("conformalize", regression, tmp_path / files, *GROUPS, "--out", tmp_path / "m", "--overwrite")
        assert (tmp_path / "m").read_bytes() == grouped.read_bytes()
