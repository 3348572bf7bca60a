"""compose.yaml: valid by the specification and by the client; its commands, as processes, do what it says."""

import json
import os
import signal

import pytest

from tests.deploy.places import DEPLOY, documents, refusal
from tests.deploy.processes import (
    PATIENCE,
    RECIPE,
    Group,
    bin_folder,
    environment,
    free_port,
    run,
    wait_until,
    write_data,
)

CHECKED = ["compose.yaml"]
(COMPOSE,) = documents("compose.yaml")
SERVICES = COMPOSE["services"]
PLACES = ["data", "checkpoints", "models", "scratch"]


def test_every_command_is_one_and_every_place_has_a_volume():
    for name, service in SERVICES.items():
        assert {v.split(":")[0] for v in service["volumes"]} == set(COMPOSE["volumes"]) == set(PLACES)
        if name != "load":
            assert refusal(service["command"]) == ""
        used = [word.split("/")[1] for word in service["command"] if word.startswith("/")]
        assert set(used) <= {*PLACES, "from"}
        healthy = service["healthcheck"]
        assert healthy.get("disable") is (True if name in ("train", "score", "load") else None)


def test_a_job_starts_again_and_its_image_is_that_of_the_dockerfile():
    assert SERVICES["train"]["restart"].startswith("on-failure")
    assert {"--checkpoint", "--resume"} <= set(SERVICES["train"]["command"])
    assert SERVICES["score"]["depends_on"]["train"]["condition"] == "service_completed_successfully"
    for service in SERVICES.values():
        assert service["image"] == "dkernel:0.1.0"
        build = DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]
        assert build.resolve() == DEPLOY / "Dockerfile"


class Machine(Group):
    """Services as processes: volumes are folders, names and ports are those of this machine."""

    def __init__(self, folder):
        super().__init__(folder, environment(bin_folder(folder / "bin")))
        self.ports = {name: free_port() for name in ("8786", "8787", "8788")}
        for name in PLACES:
            (folder / name).mkdir()

    def words(self, words):
        made = []
        for word in words:
            text = word
            for name in PLACES:
                text = text.replace(f"/{name}", f"{self.folder}/{name}") if text.startswith("/") else text
            text = text.replace("scheduler:", "127.0.0.1:").replace("/opt/dkernel/health", f"{DEPLOY}/health")
            for port, here in self.ports.items():
                text = text.replace(port, str(here))
            made.append(text)
        return made

    def up(self, name, index=0, more=()):
        words = self.words(SERVICES[name]["command"])
        if index:
            words[words.index("--dashboard-address") + 1] = ":0"
        return self.start(f"{name}-{index}", [*words, *more])

    def healthy(self, name):
        test = SERVICES[name]["healthcheck"]["test"]
        assert test[0] == "CMD"
        return not run(*self.words(test[1:]), env=self.env).returncode


@pytest.fixture
def machine(tmp_path):
    with Machine(tmp_path) as machine:
        write_data(tmp_path / "data" / "train")
        write_data(tmp_path / "data" / "new", files=2, seed=1)
        yield machine


@pytest.mark.cluster
def test_after_preemption_and_a_lost_worker_it_ends_with_equal_bytes(machine):
    first = machine.up("scheduler")
    wait_until(lambda: machine.healthy("scheduler"), "a scheduler that is well", alive=[first])
    workers = [machine.up("worker", index) for index in range(2)]
    wait_until(lambda: machine.healthy("worker"), "a worker that is well", alive=workers)
    more = [*RECIPE, "--passes", "4", "--progress", "json"]

    job = machine.up("train", more=more)
    wait_until(lambda: '"phase": "pass 1/' in machine.log("train-0"), "the first pass", alive=[job])
    assert any(path.is_file() for path in (machine.folder / "checkpoints" / "train").rglob("*"))
    os.killpg(workers[1].pid, signal.SIGKILL)
    job.send_signal(getattr(signal, SERVICES["train"]["stop_signal"]))
    # The promise is 10 seconds on a machine that is not busy with other tests.
    assert job.wait(timeout=int(SERVICES["train"]["stop_grace_period"].rstrip("s"))) == 75, machine.log("train-0")
    model = machine.folder / "models" / "model.safetensors"
    assert not model.exists()

    again = machine.up("train", more=more)
    assert again.wait(timeout=PATIENCE) == 0, machine.log("train-0")
    assert model.read_bytes() == machine.alone(*more, data="data/train")

    assert machine.up("score").wait(timeout=PATIENCE) == 0, machine.log("score-0")
    scores = machine.folder / "models" / "scores"
    assert (scores / "_SUCCESS").exists()
    assert json.loads((scores / "_manifest.json").read_bytes())["rows"] == 8192
