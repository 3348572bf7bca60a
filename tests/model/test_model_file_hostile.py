"""Files made to run code, to fill the memory or to hang whoever loads them as a model: all refused, none run."""

import io
import json
import os
import pickle
import subprocess
import sys
import tarfile
import zipfile

import numpy as np
import pytest

from dkernel.errors import ModelFileError
from dkernel.model.model_file import load_model, read_header, save
from tests.model.test_model_file import a_model
from tests.model.test_model_file_damage import raw_file
from tests.processes import environment


@pytest.fixture
def path(tmp_path):
    return tmp_path / "m.safetensors"


class Trap:
    """What makes a folder where it is unpickled."""

    def __init__(self, ran):
        self.ran = ran

    def __reduce__(self):
        return os.mkdir, (self.ran,)


def zipped(entries, compression=zipfile.ZIP_DEFLATED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return out.getvalue()


def archived(name):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        entry = tarfile.TarInfo(name)
        entry.size = 4
        archive.addfile(entry, io.BytesIO(b"evil"))
    return out.getvalue()


def dumped(module, value):
    out = io.BytesIO()
    pytest.importorskip(module).dump(value, out)
    return out.getvalue()


def objects(value, save=np.save, **options):
    out = io.BytesIO()
    save(out, np.array([value, 1], dtype=object), allow_pickle=True, **options)
    return out.getvalue()


def inside(text):
    return raw_file(b'{"__metadata__":{"dkernel":' + json.dumps(text).encode() + b"}}")


def hostile(ran):
    """Twenty files and more, each made to run code, to fill the memory or to hang whoever reads it."""
    trap = Trap(ran)
    bomb = zipped({"arr_0.npy": bytes(300_000_000)})
    call = f"__import__('os').mkdir({ran!r})"
    return {
        **{f"pickle, protocol {n}": pickle.dumps(trap, n) for n in (0, 2, 4, 5)},
        "joblib": dumped("joblib", trap),
        "cloudpickle": dumped("cloudpickle", trap),
        "npy of objects": objects(trap),
        "npz of objects": zipped({"coef.npy": objects(trap)}),
        "zip bomb": bomb,
        "zip bomb in a zip bomb": zipped({f"{i}.npz": bomb for i in range(20)}),
        "zip slip": zipped({"../../evil": b"evil", "/tmp/evil": b"evil"}),
        "tar with a path of its own": archived("../../evil"),
        "zip with a pickle": zipped({"archive/data.pkl": pickle.dumps(trap), "archive/version": b"3"}),
        "zip that names a class": zipped({"schema.json": json.dumps({"__class__": "system", "__module__": "os"})}),
        "source": f"import os; {call}".encode(),
        "shared library": b"\x7fELF" + bytes(200),
        "pickle behind a header": raw_file(b'{"__metadata__":{}}', pickle.dumps(trap)),
        "header of 2^63 bytes": (2**63).to_bytes(8, "little") + b"{}",
        "header of 100 MB in a small file": (100_000_000).to_bytes(8, "little") + b"{}",
        "tensor of 2^80 numbers": raw_file(
            b'{"coef":{"data_offsets":[0,8],"dtype":"F64","shape":[1099511627776,1099511627776]}}', bytes(8)
        ),
        "tensors on one another": raw_file(
            b'{"a":{"data_offsets":[0,8],"dtype":"F64","shape":[1]},"b":{"data_offsets":[0,8],"dtype":"F64",'
            b'"shape":[1]}}',
            bytes(8),
        ),
        "lists without end": inside('{"protocol":' + "[" * 200_000),
        "many lists": inside('{"protocol":[' + "[]," * 2_000_000 + "1]}"),
        "one long text": inside('{"protocol":"' + "x" * 8_000_000 + '"}'),
        "number of a million digits": inside('{"protocol":' + "9" * 1_000_000 + "}"),
        "document that says what to call": inside(json.dumps({"protocol": {"__reduce__": ["os.mkdir", [ran]]}})),
    }


LOADER = """
import json, sys, time, tracemalloc
from pathlib import Path
from dkernel.errors import ModelFileError
from dkernel.model.model_file import load_model

try:  # what is imported or compiled by the first refusal is ours
    load_model(sys.argv[2])
except ModelFileError:
    pass
seen = []
watched = ("exec", "import", "marshal.", "pickle.", "os.", "subprocess.", "ctypes.", "shutil.", "socket.", "code.")
sys.addaudithook(lambda event, args: seen.append(event) if event.startswith(watched) else None)
found = {}
for path in sorted(Path(sys.argv[1]).iterdir()):
    seen.clear()
    tracemalloc.start()
    began = time.perf_counter()
    try:
        load_model(path)
        said = "loaded"
    except BaseException as error:
        said = type(error).__name__
    seconds, peak = time.perf_counter() - began, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    found[path.name] = said, seconds, peak / (2 * path.stat().st_size + 32 * 2**20), sorted(set(seen))
print(json.dumps(found))
"""


def in_a_process(script, *arguments):
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        check=True, capture_output=True, text=True, env=environment(), timeout=300,
    )  # fmt: skip
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    "limit", [pytest.param(60.0, marks=pytest.mark.score("hostile")), pytest.param(2.0, marks=pytest.mark.slow)]
)
def test_hostile_files_run_nothing(tmp_path, limit, record_property):
    ran, folder = tmp_path / "ran", tmp_path / "files"
    folder.mkdir()
    made = hostile(str(ran))
    assert len(made) >= 20
    for name, content in made.items():
        (folder / name.replace(" ", "-")).write_bytes(content)
    pickle.loads(made["pickle, protocol 4"])
    ran.rmdir()  # so the trap does what it should where it is unpickled
    found = in_a_process(LOADER, folder, tmp_path / "none")
    assert len(found) == len(made)
    good = sum(said == "ModelFileError" and not events for said, _, _, events in found.values())
    record_property("score", f"{good}/{len(made)}")
    for name, (said, seconds, share, events) in found.items():
        assert said == "ModelFileError", name
        assert seconds < limit, name
        assert share <= 1, name
        assert events == [], name
    assert sorted(each.name for each in tmp_path.iterdir()) == ["files"]


@pytest.mark.parametrize(
    "make", [os.mkfifo, lambda path: os.symlink(path, path), os.mkdir], ids=["pipe", "loop", "dir"]
)
def test_what_is_no_file_is_not_opened(path, make):
    make(path)
    for read in (load_model, read_header):
        with pytest.raises(ModelFileError):
            read(path)


LOADED = """
import json, sys
from dkernel.model.model_file import load_model
load_model(sys.argv[1])
seen = []
watched = ("exec", "import", "marshal.", "pickle.", "subprocess.", "ctypes.", "os.system", "os.exec")
sys.addaudithook(lambda event, args: seen.append(event) if event.startswith(watched) else None)
load_model(sys.argv[2])
modules = [m for m in ("joblib", "dill", "sklearn", "dask", "distributed") if m in sys.modules]
print(json.dumps([seen, modules]))
"""


@pytest.mark.parametrize("features", ["nystrom", "fourier"])
def test_loading_a_model_runs_nothing_either(tmp_path, features):
    save(a_model("text", features), tmp_path / "one")
    save(a_model("bool", features, seed=1), tmp_path / "two")
    assert in_a_process(LOADED, tmp_path / "one", tmp_path / "two") == [[], []]
