"""The image: a Dockerfile that a linter takes, that copies what is there, and whose every RUN line does its work.

No engine runs where these tests run. `test_every_line_runs` does what a builder would do with each instruction, in a
chroot above this machine's own files (an overlay: nothing outside is changed).
"""

import fnmatch
import json
import os
import shlex
import shutil
import sys
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.deploy.places import DEPLOY, ROOT
from tests.deploy.processes import run

CHECKED = ["Dockerfile", "Dockerfile.dockerignore", "healthcheck.py"]
TEXT = (DEPLOY / "Dockerfile").read_text()


@dataclass(frozen=True)
class Line:
    """One instruction, its continued lines joined."""

    word: str
    rest: str


def instructions(text):
    joined = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#")).replace("\\\n", " ")
    return [Line(*line.split(None, 1)) for line in joined.splitlines() if line.strip()]


LINES = instructions(TEXT)


def test_it_is_pinned_without_root_and_has_a_health_check_and_a_command():
    (base,) = [line.rest for line in LINES if line.word == "ARG"]
    assert base.split(":")[1][0].isdigit()
    assert [line.rest.split()[0] for line in LINES if line.word == "FROM"] == ["${BASE}", "${BASE}"]
    users = [line.rest for line in LINES if line.word == "USER"]
    assert users
    assert users[-1].split(":")[0] not in ("0", "root")
    (check,) = [line.rest for line in LINES if line.word == "HEALTHCHECK"]
    assert "healthcheck.py" in check
    assert [json.loads(line.rest) for line in LINES if line.word == "CMD"] == [["dkernel", "--help"]]


def copied():
    return [
        source
        for line in LINES
        if line.word == "COPY" and "--from" not in line.rest
        for source in line.rest.split()[:-1]
    ]


def test_what_it_copies_is_there_and_is_sent():
    rules = [line for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines() if line and line[0] != "#"]
    kept = {rule[1:] for rule in rules if rule.startswith("!")}
    assert rules[0] == "**"
    assert set(copied()) == kept
    for name in kept:
        assert (ROOT / name).exists(), name
    assert any(fnmatch.fnmatch("dkernel/cli/__pycache__", rule) for rule in rules[rules.index("!dkernel") :])


class _Answers(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/health" else 404)
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_):
        pass


def test_the_health_check_says_who_is_well():
    def check(port):
        return run(sys.executable, DEPLOY / "healthcheck.py", port).returncode

    with HTTPServer(("127.0.0.1", 0), _Answers) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            assert check(server.server_port) == 0
        finally:
            server.shutdown()
            thread.join()
    assert check(server.server_port) == 1


class Chroot:
    """What a builder keeps between two instructions: a root, a folder, variables, a user."""

    def __init__(self, folder):
        self.upper, self.work, self.root = (folder / name for name in ("upper", "work", "root"))
        for path in (self.upper, self.work, self.root):
            path.mkdir()
        self.cwd, self.user = "/", "0"
        self.env = {k: v for k, v in os.environ.items() if k.startswith(("PIP_", "SSL_")) or k in ("PATH", "HOME")}

    def run(self, script, timeout=550):
        inside = f"chroot {'' if self.user == '0' else f'--userspec={self.user} '}{self.root} /bin/sh -ec"
        script = f"cd {shlex.quote(self.cwd)}; {script}"
        outside = (
            f"mount -t overlay overlay -o lowerdir=/,upperdir={self.upper},workdir={self.work} {self.root} && "
            f"mount -t proc proc {self.root}/proc && mount --bind /dev {self.root}/dev && "
            f"exec {inside} {shlex.quote(script)}"
        )
        return run("unshare", "--mount", "--pid", "--fork", "sh", "-c", outside, timeout=timeout, env=self.env)

    def must(self, script):
        done = self.run(script)
        assert done.returncode == 0, f"{script}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
        return done.stdout

    def follow(self, line):
        """Do one instruction of the Dockerfile."""
        if line.word == "RUN":
            self.must(line.rest)
        elif line.word == "WORKDIR":
            if self.user == "0":
                self.must(f"mkdir -p {line.rest}")
            self.cwd = line.rest
        elif line.word == "ENV":
            for pair in shlex.split(line.rest):
                name, value = pair.split("=", 1)
                self.env[name] = value.replace("$PATH", self.env["PATH"])
        elif line.word == "USER":
            self.user = line.rest
        elif line.word == "COPY" and "--from" not in line.rest:
            *sources, target = line.rest.split()
            place = self.upper / (Path(self.cwd) / target).as_posix().lstrip("/")
            for source in sources:
                self._copy(ROOT / source, place, target.endswith("/"))

    def _copy(self, source, place, into):
        if source.is_dir():
            shutil.copytree(source, place, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
            return
        to = place / source.name if into else place
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, to)


@pytest.fixture(scope="module")
def chroot(tmp_path_factory):
    made = Chroot(tmp_path_factory.mktemp("image"))
    if shutil.which("unshare") is None or made.run("true", timeout=120).returncode:
        pytest.skip("no overlay chroot can be made here (it takes root and mount namespaces)")
    return made


@pytest.mark.slow
def test_every_line_runs(chroot):
    # The base image's interpreter is anybody's to use; this machine's may lie in the home of root.
    chroot.must("chmod a+rx /root")
    for line in LINES:
        chroot.follow(line)
    runs = [line for line in LINES if line.word == "RUN"]
    assert len(runs) >= 3
    # As the image's own user: the programs are there, and so are the loops of a fit.
    assert "dkernel 0." in chroot.must("dkernel --version")
    for name in ("dask-scheduler", "dask-worker"):
        assert "Usage" in chroot.must(f"{name} --help")
    assert chroot.must("id -u; touch /models/x /scratch/x && echo written").split() == ["10001", "written"]
    assert chroot.run("touch /opt/dkernel/x").returncode != 0
    settings = "import dask, distributed; print(dask.config.get('distributed.scheduler.worker-ttl'))"
    assert chroot.must(f'python -c "{settings}"').strip() == "60 s"
    assert chroot.run("python /opt/dkernel/healthcheck.py").returncode == 1
    made = "X = numpy.eye(8); s = dkernel.KernelRegressor(gamma=1.0).fit(X, X[0]).predict(X)"
    fit = f"import numpy, dkernel; {made}; print(s.shape)"
    assert chroot.must(f'python -c "{fit}"').strip() == "(8,)"
    assert not chroot.must("ls /tmp/numba | head -1").strip()  # where others would be compiled
    chroot.must("mkdir -p /tmp/numba && touch /tmp/numba/x")
