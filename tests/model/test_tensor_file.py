import json

import numpy as np
import pytest
from safetensors.numpy import load_file

from dkernel.errors import ModelFileError
from dkernel.model.tensor_file import open_tensors, read_document, read_tensors, write_tensors

ARRAYS = {
    "b": np.array([True, False, True]),
    "e": np.zeros((0, 3)),
    "f": np.array([[1.5], [-0.0]], np.float32),
    "d": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "i": np.array([-(2**62)], np.int64),
    "s": np.array(3, np.uint8),
    "u": np.arange(7, dtype=np.uint8)[::2],
}


def read(path, newest=1):
    with open_tensors(path) as file:
        document = read_document(file, str(path), newest)
        return document, read_tensors(file, document, str(path))


def test_every_kind_of_array_comes_back(tmp_path):
    path = tmp_path / "t"
    write_tensors(path, {"protocol": 1, "note": "é \ud800"}, ARRAYS)
    document, arrays = read(path)
    assert document["note"] == "é \ud800"
    assert set(arrays) == set(ARRAYS)
    for name, array in load_file(path).items():
        for found in (array, arrays[name]):
            assert found.dtype == ARRAYS[name].dtype
            assert found.tobytes() == np.ascontiguousarray(ARRAYS[name]).tobytes()


def test_tensors_are_aligned_and_without_holes(tmp_path):
    write_tensors(tmp_path / "t", {"protocol": 1}, ARRAYS)
    raw = (tmp_path / "t").read_bytes()
    length = int.from_bytes(raw[:8], "little")
    entries = json.loads(raw[8 : 8 + length])
    del entries["__metadata__"]
    end = 0
    for name, entry in sorted(entries.items(), key=lambda item: item[1]["data_offsets"]):
        begin, after = entry["data_offsets"]
        assert begin == end
        assert (8 + length + begin) % ARRAYS[name].dtype.itemsize == 0
        end = after
    assert 8 + length + end == len(raw)
    assert length % 8 == 0


@pytest.mark.parametrize("array", [np.array(["a"]), np.array([1j]), np.array([object()]), np.array([1.0], ">f8")])
def test_other_types_are_refused(tmp_path, array):
    with pytest.raises(ModelFileError, match="'x' is of type"):
        write_tensors(tmp_path / "t", {"protocol": 1}, {"x": array})
    assert list(tmp_path.iterdir()) == []


def test_the_order_of_names_does_not_matter(tmp_path):
    write_tensors(tmp_path / "one", {"protocol": 1, "a": 1}, ARRAYS)
    write_tensors(tmp_path / "two", {"a": 1, "protocol": 1}, dict(reversed(ARRAYS.items())))
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_newer_files_are_refused_by_their_number(tmp_path):
    write_tensors(tmp_path / "t", {"protocol": 3}, ARRAYS)
    assert read(tmp_path / "t", newest=3)[0]["protocol"] == 3
    with pytest.raises(ModelFileError, match="protocol 3 and this dkernel reads 2"):
        read(tmp_path / "t", newest=2)
