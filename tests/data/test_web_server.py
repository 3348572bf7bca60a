"""Files of a web server: signed addresses, and servers that send nothing but the whole file."""

import gzip
import re

import numpy as np
import pandas as pd
import pytest

from dkernel.data.opening import open_source
from dkernel.data.paths import expand
from dkernel.data.store import locate
from dkernel.errors import DataError
from tests.combinations import every_two
from tests.web import serve

ROWS = 400_000  # 9 MB of text, more than what is asked for at one time
SIGNED = "?X-Amz-Date=2026.01&X-Amz-Signature=1f/3a*"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder, X = tmp_path_factory.mktemp("site"), np.random.default_rng(0).normal(size=(ROWS, 2)).astype(np.float32)
    frame = pd.DataFrame({"a": X[:, 0], "y": X[:, 1]})
    frame.to_csv(folder / "d.csv", index=False)
    (folder / "d.csv.gz").write_bytes(gzip.compress((folder / "d.csv").read_bytes(), 1))
    frame.to_parquet(folder / "d.parquet", index=False)
    np.save(folder / "d.npy", X)
    np.savez(folder / "d.npz", X=X)
    np.savez_compressed(folder / "e.npz", X=X)
    return folder


SERVERS = ["none", "silent", "bytes", "unsized", "bare"]


@pytest.fixture(params=SERVERS)
def site(request, folder):
    """The address of a server that has ranges, or says that it has none, or does not say so, nor how long files are,
    nor their versions.
    """

    with serve(folder, request.param) as place:
        yield f"http://{place}"


@pytest.mark.parametrize(
    ("site", "name"),
    every_two(SERVERS, ["d.csv", "d.csv.gz", "d.parquet", "d.npy", "d.npz", "e.npz"]),
    indirect=["site"],
)
def test_a_server_without_ranges_is_read_as_others(site, folder, name, tmp_path):
    label = "y" if "csv" in name or "parquet" in name else "1"
    source, local = (open_source(f"{place}/{name}", label=label, scratch=tmp_path) for place in (site, folder))
    np.testing.assert_array_equal(source.X.compute(), local.X.compute())
    assert not list(tmp_path.glob("*.web")) + list(tmp_path.glob("*.part"))


def test_a_file_without_a_version_is_known_by_its_content(tmp_path):
    """A file of a server that says nothing of it was refused; a copy of what it was before is not taken for it."""
    name, scratch = tmp_path / "d.csv", tmp_path / "s"
    with serve(tmp_path, "bare") as place:
        seen = []
        for text in ("a,y\n1,2\n3,4\n", "a,y\n5,6\n7,8\n", "a,y\n1,2\n3,4\n"):
            name.write_text(text)
            source = open_source(f"http://{place}/d.csv", label="y", scratch=scratch)
            seen.append((source.fingerprint, source.y.compute().tolist()))
    assert [y for _, y in seen] == [[2, 4], [6, 8], [2, 4]]
    assert seen[0] == seen[2] != seen[1]
    assert len(list(scratch.iterdir())) == 2


def test_a_signed_address_is_judged_by_its_path(site):
    source = open_source(f"{site}/d.parquet{SIGNED}", label="y")
    assert source.n_rows == ROWS
    assert source.files == (f"{site}/d.parquet?***",)


@pytest.mark.parametrize("name", ["d.csv", "d.parquet", "d.csv.gz"])
def test_a_body_that_breaks_off_can_be_read_again(run_to, folder, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with serve(folder, "cut") as place:
        words = ["train", f"http://{place}/{name}{SIGNED}", "--label", "y", "--n-components", "8", "--out", "m"]
        said = run_to(*words, code=75).stderr
    assert re.search(rf"http://{place}/{name}\?\*\*\*: the store failed \(.*Run the same command again", said)


@pytest.mark.parametrize("reads", [expand, lambda url: locate(url)[0].names(), open_source])
@pytest.mark.parametrize("protocol", ["s3", "s3a", "gs"])
def test_the_address_of_a_bucket_holds_no_credentials(reads, protocol):
    with pytest.raises(DataError, match=r"\*\*\*@bucket.*holds no credentials.*AWS_ACCESS_KEY_ID") as caught:
        reads(f"{protocol}://AKIA0:5ec4e7@bucket/d.parquet")
    assert "5ec4e7" not in str(caught.value)
