import numpy as np
import onnxruntime
import pandas as pd
import pytest

import dkernel


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_graph_answers_as_the_model_does(run_to, model, tmp_path, dtype):
    out = tmp_path / "m.onnx"
    done = run_to("export", model, "--dtype", dtype, "--out", out)
    assert done.stdout.startswith(f"{out}: {out.stat().st_size:,} bytes")
    X = np.random.default_rng(0).normal(size=(10_000, 3)).astype(dtype)
    session = onnxruntime.InferenceSession(out, providers=["CPUExecutionProvider"])
    label, score = session.run(["label", "score"], {"X": X})
    wanted = dkernel.load(model).model_
    S = wanted.scores(X)
    error = 1e-4 * np.abs(S).max()  # of the model's own float32 columns
    sure = np.abs(S[:, 0]) > error
    np.testing.assert_allclose(score, S, atol=error)
    assert label[sure].tolist() == wanted.predict(X)[sure].tolist()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_several_targets_of_a_table(run_to, tmp_path, dtype):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=400).astype("f4"), "c": rng.choice([*"pqr"], 400)})
    Y = np.column_stack([np.sin(frame["a"]), 100 * frame["a"] * (frame["c"] == "p"), -(frame["a"] ** 2)])
    machine = dkernel.KernelRegressor("gaussian", n_components=32, local="none", random_state=0).fit(frame, Y)
    dkernel.save(machine, tmp_path / "m")
    done = run_to("export", tmp_path / "m", "--dtype", dtype, "--out", tmp_path / "m.onnx")
    assert done.stdout.endswith(f"; a ({dtype}), c (text) -> score\n")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    given = {"a": frame[["a"]].to_numpy(dtype), "c": frame[["c"]].to_numpy(object)}
    expected = dkernel.load(tmp_path / "m").predict(frame)
    assert expected.shape == Y.shape
    found = session.run(["score"], given)[0]
    np.testing.assert_array_less(np.abs(found - expected).max(axis=0), 2e-5 * np.abs(expected).max(axis=0))


def test_mistakes(run_to, model, tmp_path):
    out = tmp_path / "m.onnx"
    for code, words, arguments in [
        (2, "Missing option '-o' / '--out'", [model]),
        (65, "absent", [tmp_path / "absent", "--out", out]),
        (65, "the folder is not there", [model, "--out", tmp_path / "no" / "m.onnx"]),
        (2, "ends in .joblib", [model, "--out", tmp_path / "m.joblib"]),
    ]:
        done = run_to("export", *arguments, code=code)
        assert words.lower() in done.stderr.lower()
        assert "Traceback" not in done.output
    assert not out.exists()
