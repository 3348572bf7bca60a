import json


def test_json_is_the_header(run_to, model):
    result = run_to("show", model, "--json")
    header = json.loads(result.stdout)
    assert header["columns"] == ["a", "b", "c"]
    assert header["classes"]["values"] == ["in", "out"]
    assert header["recipe"]["n_components"] == 64


def test_for_people(run_to, model):
    lines = run_to("show", model).stdout
    for words in ("classifier of 2 classes", "'in', 'out'", "a, b, c", "64 components of a Gaussian kernel", "error"):
        assert words in lines
    assert len(lines.splitlines()) < 20


def test_the_inner_figures_of_the_solver_are_shown_on_request(run_to, model):
    few, every = (run_to("show", model, *more).stdout for more in ((), ("--all",)))
    for name in (" setup ", " rho ", " share of step ", " recipe ", " tensors ", " protocol ", " norm ", " versions "):
        assert name not in few
        assert name in every


def test_the_certificates_of_the_landmarks(run_to, model):
    facts = json.loads(run_to("show", model, "--json").stdout)["facts"]["certificate"]
    assert 0 <= facts["trace_error"] <= facts["trace_largest"] <= 1
    assert 1 <= facts["effective_rank"] <= 64
    lines = run_to("show", model, "--all").stdout.splitlines()
    for name in ("trace_error", "trace_share", "trace_largest", "trace_rows", "effective_rank"):
        (line,) = [line for line in lines if f" {name} " in line]
        assert line.split()[-1] == (f"{facts[name]:.6g}" if isinstance(facts[name], float) else f"{facts[name]:,}")


def test_the_tensors_are_not_read(run_to, model, tmp_path):
    whole = bytearray(model.read_bytes())
    whole[-1] ^= 1
    (tmp_path / "m").write_bytes(whole)
    run_to("show", tmp_path / "m")
    run_to("evaluate", tmp_path / "m", "x.csv", code=65)
