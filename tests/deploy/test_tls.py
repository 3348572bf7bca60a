"""Certificates by the script; a cluster that takes them, and three kinds of client that it refuses."""

import json
import shutil
from types import SimpleNamespace

import distributed  # noqa: F401 - its settings
import pytest
import yaml

from tests.deploy.places import DEPLOY
from tests.deploy.processes import TRAIN, Group, bin_folder, environment, run, wait_until, write_data

CHECKED = ["tls/make-certs.sh", "tls/dask.yaml"]
MAKE = DEPLOY / "tls" / "make-certs.sh"


def make(folder, *names, **env):
    return run("bash", MAKE, folder, *names, env=environment(**env))


def openssl(*arguments):
    return run("openssl", *arguments)


@pytest.fixture(scope="module")
def certs(tmp_path_factory):
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("certs")
    for name in ("ours", "foreign"):
        assert make(folder / name, "node-1", "10.1.2.3", "fe80::1").returncode == 0
    return folder


def test_every_certificate_is_signed_and_readable_by_its_owner_only(certs):
    for role in ("cluster", "client"):
        ours = certs / "ours"
        assert openssl("verify", "-CAfile", ours / "ca.pem", ours / f"{role}.pem").returncode == 0
        assert openssl("verify", "-CAfile", certs / "foreign" / "ca.pem", ours / f"{role}.pem").returncode != 0
        assert (ours / f"{role}.pem").stat().st_mode & 0o077 == 0
    names = openssl("x509", "-in", certs / "ours" / "cluster.pem", "-noout", "-ext", "subjectAltName").stdout
    assert "DNS:node-1" in names
    assert "IP Address:10.1.2.3" in names
    assert "IP Address:FE80" in names


def test_run_again_it_keeps_what_is_there_and_makes_what_is_missing(certs):
    folder = certs / "ours"
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    (folder / "client.pem").unlink()
    assert make(folder, DKERNEL_CERT_DAYS="3").returncode == 0
    after = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert after.keys() == before.keys()
    assert [name for name in after if after[name] != before[name]] == ["client.pem"]
    assert openssl("x509", "-in", folder / "client.pem", "-noout", "-checkend", 4 * 86400).returncode == 1


@pytest.mark.parametrize(("arguments", "code"), [((), 1), (("--help",), 0)])
def test_it_explains_itself(arguments, code):
    done = run("bash", MAKE, *arguments)
    assert done.returncode == code
    assert "make-certs.sh DIR" in done.stdout


@pytest.fixture(scope="module")
def secure(certs, tmp_path_factory):
    """A scheduler and two workers that speak TLS, as deploy/tls/dask.yaml has them, in processes of their own."""
    folder = tmp_path_factory.mktemp("secure")
    (folder / "config").mkdir()
    text = (DEPLOY / "tls" / "dask.yaml").read_text().replace("/etc/dkernel", str(certs / "ours"))
    (folder / "config" / "dask.yaml").write_text(text)
    env = environment(bin_folder(folder / "bin"))
    write_data(folder / "train", files=2)
    with Group(folder, env) as group:
        file, config = folder / "scheduler.json", {"DASK_CONFIG": str(folder / "config")}
        scheduler = ["dask", "scheduler", "--host", "127.0.0.1", "--port", 0, "--no-dashboard"]
        group.start("scheduler", [*scheduler, "--scheduler-file", file], config)
        options = ["--host", "127.0.0.1", "--nworkers", 2, "--nthreads", 1, "--no-dashboard", "--memory-limit", 0]
        group.start("workers", ["dask", "worker", "--scheduler-file", file, *options], config)
        wait_until(lambda: file.exists() and file.read_text() != "", "the scheduler file", alive=group.running)
        yield SimpleNamespace(group=group, folder=folder, address=json.loads(file.read_text())["address"])


def train(secure, name, address, *options, expect=0, certificates=None):
    env = None if certificates is None else {"DASK_CONFIG": str(certificates)}
    command = [*TRAIN, "--out", f"{name}.model"]
    secure.group.run(name, [*command, "--scheduler", address, *options], expect, env=env)
    return secure.folder / f"{name}.model"


def credentials(folder, ca=None):
    """A folder with Dask's settings of these certificates."""
    tls = {"ca-file": str((ca or folder) / "ca.pem"), "client": {"cert": str(folder / "client.pem")}}
    made = folder / f"config-{ca is None}"
    made.mkdir(exist_ok=True)
    (made / "dask.yaml").write_text(yaml.safe_dump({"distributed": {"comm": {"tls": tls}}}))
    return made


@pytest.mark.cluster
@pytest.mark.slow
def test_with_certificates_it_trains_to_the_same_bytes(secure, certs):
    assert secure.address.startswith("tls://")
    few = train(secure, "few", secure.address, certificates=credentials(certs / "ours"))
    page = train(secure, "page", secure.address, certificates=secure.folder / "config")
    assert few.read_bytes() == page.read_bytes() == secure.group.alone()


@pytest.mark.cluster
def test_three_of_three_strangers_are_refused(secure, certs):
    plain = secure.address.replace("tls://", "tcp://")
    strangers = {
        "without": (secure.address, None),
        "foreign": (secure.address, credentials(certs / "foreign", ca=certs / "ours")),
        "plain": (plain, None),
    }
    for name, (address, certificates) in strangers.items():
        model = train(secure, name, address, expect=75, certificates=certificates)
        log = secure.group.log(name)
        assert "Traceback" not in log
        assert "tls" in log.lower()
        assert not model.exists()
    # Nor does a client take a scheduler whose authority it does not know.
    train(secure, "mistrust", secure.address, expect=75, certificates=credentials(certs / "foreign"))


@pytest.mark.cluster
@pytest.mark.slow
def test_a_job_of_the_cluster_has_the_certificates_of_its_worker(secure, certs):
    options, certificates = ["--checkpoint", "kept", "--detach"], credentials(certs / "ours")
    made = train(secure, "job", secure.address, *options, certificates=certificates)
    secure.group.run("watch", ["dkernel", "watch", made])
    assert made.read_bytes() == secure.group.alone()
