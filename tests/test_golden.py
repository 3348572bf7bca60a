"""Models written by every release so far: each loads, says what it said, and is written again to the same bytes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dkernel.persistence import model_file
from tests.golden.make import FOLDER, TILES, largest, numpy_scores

ROOT = Path(__file__).parents[1]
MODELS = sorted(FOLDER.glob("*/*.safetensors"))


def name_of(path):
    return f"{path.parent.name}/{path.stem}"


@pytest.fixture(params=MODELS, ids=name_of)
def golden(request):
    """The path of one model, and what was expected of it: rows, scores, exact scores and labels."""
    path = request.param
    with np.load(path.parent / "expected.npz") as held:
        mine = {part: held[f"{path.stem}.{part}"] for part in ("scores", "exact", "labels")}
        return path, {"X": held["X"], **mine}


def test_there_are_some_of_every_kind():
    assert {path.stem for path in MODELS} >= {"nystrom", "fourier", "classes"}


def test_it_reads_and_is_written_again_to_the_same_bytes(golden, tmp_path):
    path, _ = golden
    model = model_file.load_model(path)
    model_file.save(model, tmp_path / "again")
    header = model_file.read_header(path)
    assert header["recipe"] == model.recipe.to_dict()
    assert all(len(tensor["sha256"]) == 64 for tensor in header["tensors"].values())
    if header["protocol"] == model_file.MODEL_VERSION:
        assert (tmp_path / "again").read_bytes() == path.read_bytes()


def test_plain_numpy_gives_the_same_scores_to_the_last_bit(golden):
    path, expected = golden
    assert len(expected["X"]) == 100
    found = numpy_scores(model_file.load_model(path), expected["X"]).astype(np.float32)
    assert found.tobytes() == expected["exact"].tobytes()


def test_the_tiles_give_the_same_scores(golden):
    path, expected = golden
    model = model_file.load_model(path)
    found = model.scores(expected["X"])
    if model.classes is None:  # predictions were float32 in that release, and are no farther from the truth now
        exact = numpy_scores(model, expected["X"])
        assert np.square(found - exact).mean() <= np.square(expected["scores"] - exact).mean()
    far = np.abs(found.astype(np.float64) - expected["scores"]) / largest(model)
    assert far.max() <= TILES
    if model.classes is not None:
        margin = np.sort(expected["scores"], axis=1)
        sure = margin[:, -1] - margin[:, -2] if margin.shape[1] > 1 else np.abs(margin[:, 0])
        sure = sure > 2 * TILES * largest(model).max()
        assert sure.mean() > 0.9
        np.testing.assert_array_equal(model.labels(found)[sure], expected["labels"][sure])
        assert model.labels(found).dtype == expected["labels"].dtype


ELSEWHERE = """
import json, numpy as np
from dkernel.persistence.model_file import load_model
from tests.golden.make import FOLDER, TILES, largest, numpy_scores

found = {}
for path in sorted(FOLDER.glob("*/*.safetensors")):
    held, model = np.load(path.parent / "expected.npz"), load_model(path)
    X, scores, exact = (held[name] for name in ("X", f"{path.stem}.scores", f"{path.stem}.exact"))
    far = np.abs(model.scores(X).astype(float) - scores) / largest(model) / TILES
    found[str(path)] = [bool((numpy_scores(model, X).astype(np.float32) == exact).all()), float(far.max())]
print(json.dumps(found))
"""

# A processor without wide registers and fused multiplication, as far as libraries can be told to see one.
PLAIN = {
    "OPENBLAS_CORETYPE": "Prescott",
    "NUMBA_CPU_NAME": "generic",
    "NUMBA_CPU_FEATURES": "",
    "NPY_DISABLE_CPU_FEATURES": "AVX512F,AVX512_SKX,AVX512_ICL,AVX512_CLX,AVX512_CNL,AVX2,FMA3",
}


@pytest.mark.slow
def test_a_plainer_processor_says_the_same(tmp_path):
    environment = {**os.environ, **PLAIN, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", ELSEWHERE],
        env=environment, check=True, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    found = json.loads(done.stdout)
    assert len(found) == len(MODELS) > 0
    for path, (same, far) in found.items():
        assert same, path
        assert 0 < far <= 1, path  # not a bit otherwise would mean that this was the same processor after all
