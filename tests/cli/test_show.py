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


def test_the_inner_figures_of_the_solver_are_in_json_alone(run_to, model):
    for_people = run_to("show", model).stdout
    header = json.loads(run_to("show", model, "--json").stdout)
    assert {"recipe", "tensors", "protocol"} <= header.keys()
    for name in ("setup", "rho", "share_of_step", "norm", "versions"):
        assert name in json.dumps(header["facts"])
        assert f" {name} ".replace("_", " ") not in for_people


def test_the_tensors_are_not_read(run_to, model, tmp_path):
    whole = bytearray(model.read_bytes())
    whole[-1] ^= 1
    (tmp_path / "m").write_bytes(whole)
    run_to("show", tmp_path / "m")
    run_to("evaluate", tmp_path / "m", "x.csv", code=65)
