"""The manifests: valid for Kubernetes and for the operator's own definitions, and whole: what they name is there."""

import json
import sys
import zipfile

import jsonschema
import pytest
import yaml

from dkernel.data.store import is_url
from tests.deploy.places import documents, names, refusal
from tests.deploy.processes import run

CHECKED = [name for name in names(".yaml") if name.startswith("kubernetes/")]
OPERATOR = "dask-kubernetes==2026.3.0"
CORE = "1.31"


ALL = [(name, document) for name in CHECKED for document in documents(name)]
IDS = [f"{name}-{document['kind']}" for name, document in ALL]


@pytest.fixture(scope="session")
def definitions(pytestconfig, tmp_path_factory):
    """The operator's definitions, from its own package: kind -> schema. Kept where pytest keeps a cache."""
    cache = getattr(pytestconfig, "cache", None)
    folder = cache.mkdir("dask-kubernetes") if cache else tmp_path_factory.mktemp("dask-kubernetes")
    if not list(folder.glob("*.whl")):
        done = run(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, OPERATOR)
        if done.returncode:
            pytest.skip(f"the operator's package cannot be had here: {done.stderr.strip().splitlines()[-1:]}")
    found = {}
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
        for name in wheel.namelist():
            if "/crds/" in name:
                for crd in yaml.safe_load_all(wheel.read(name)):
                    (version,) = (v for v in crd["spec"]["versions"] if v["name"] == "v1")
                    found[crd["spec"]["names"]["kind"]] = version["schema"]["openAPIV3Schema"]
    return found


def closed(schema):
    """A schema that also refuses what it does not know, as `kubectl apply` does."""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: closed(value) for key, value in schema.items()}
    if made.pop("x-kubernetes-int-or-string", False):
        made.pop("anyOf", None)
        made["type"] = ["integer", "string"]
    if isinstance(schema.get("properties"), dict) and not schema.get("x-kubernetes-preserve-unknown-fields"):
        made.setdefault("additionalProperties", False)
    return made


@pytest.mark.parametrize("document", [d for _, d in ALL if "dask.org" in d["apiVersion"]], ids=lambda d: d["kind"])
def test_the_operator_takes_it(document, definitions):
    inner = {key: value for key, value in document.items() if key not in ("apiVersion", "kind", "metadata")}
    schema = definitions[document["kind"]]
    properties = {k: v for k, v in schema["properties"].items() if k not in ("apiVersion", "kind", "metadata")}
    jsonschema.validate(inner, closed({**schema, "properties": properties}))
    assert document["apiVersion"] == "kubernetes.dask.org/v1"


@pytest.mark.parametrize("broken", [{"replicas": "two"}, {"replica": 2}])
def test_the_operator_would_refuse_a_mistake(broken, definitions):
    (cluster,) = documents("kubernetes/cluster.yaml")
    cluster["spec"]["worker"].update(broken)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(cluster["spec"], closed(definitions["DaskCluster"]["properties"]["spec"]))


def plain(document):
    """What Kubernetes itself judges: its own kinds, and the pods and services inside the operator's."""
    if "dask.org" not in document["apiVersion"]:
        return [document]
    spec = document["spec"]
    cluster = spec["cluster"]["spec"] if "cluster" in spec else spec
    pods = [cluster["worker"]["spec"], cluster["scheduler"]["spec"], *([spec["job"]["spec"]] if "job" in spec else [])]
    made = [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, "spec": pod} for pod in pods]
    service = {"kind": "Service", "metadata": {"name": "it"}, "spec": cluster["scheduler"]["service"]}
    return [*made, {"apiVersion": "v1", **service}]


@pytest.mark.parametrize("document", [d for _, d in ALL], ids=IDS)
def test_kubernetes_takes_it(document):
    kubernetes_validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    for each in plain(document):
        kubernetes_validate.validate(each, CORE, strict=True)


def pods(document):
    found = [d for d in plain(document) if d["kind"] == "Pod"]
    if document["kind"] == "Job":
        found = [document["spec"]["template"]]
    return [pod["spec"] for pod in found]


@pytest.mark.parametrize("document", [d for _, d in ALL], ids=IDS)
def test_it_is_whole(document):
    for pod in pods(document):
        volumes = {v["name"] for v in pod.get("volumes", [])}
        assert all("emptyDir" in v for v in pod.get("volumes", [])), "state and data are in the store"
        assert pod["securityContext"]["runAsNonRoot"] is True
        for container in pod["containers"]:
            assert {m["name"] for m in container.get("volumeMounts", [])} == volumes
            assert container["image"] == "dkernel:0.1.0"
            assert container["resources"]["limits"]["memory"]
            assert "command" in container or refusal(container["args"]) == ""


def argument(args, name):
    return args[args.index(name) + 1]


def test_jobs_start_again_where_they_were_and_not_after_a_mistake():
    for name in ("kubernetes/train.yaml", "kubernetes/score.yaml"):
        (job,) = documents(name)
        (container,) = job["spec"]["template"]["spec"]["containers"]
        assert job["spec"]["template"]["spec"]["restartPolicy"] == "Never"
        assert job["spec"]["backoffLimit"] >= 5
        fail = [rule for rule in job["spec"]["podFailurePolicy"]["rules"] if rule["action"] == "FailJob"]
        assert [rule["onExitCodes"]["values"] for rule in fail] == [[2, 65]]
        assert fail[0]["onExitCodes"]["containerName"] == container["name"]
        (cluster,) = documents("kubernetes/cluster.yaml")
        assert argument(container["args"], "--scheduler") == f"tcp://{cluster['metadata']['name']}-scheduler:8786"
    (dask_job,) = documents("kubernetes/job.yaml")
    assert dask_job["spec"]["job"]["spec"]["restartPolicy"] == "OnFailure"
    for document in (documents("kubernetes/train.yaml")[0], dask_job):
        args = pods(document)[-1]["containers"][0]["args"]
        assert "--resume" in args
        assert all(is_url(argument(args, option)) for option in ("--out", "--checkpoint"))


def test_who_reads_and_writes_the_store_has_its_keys():
    readers = [(name, pod) for name, document in ALL for pod in pods(document)]
    for name, pod in readers:
        for container in pod["containers"]:
            found = [source["secretRef"]["name"] for source in container.get("envFrom", [])]
            assert found == ([] if container["name"] == "scheduler" else ["dkernel-store"]), name


def test_a_service_reaches_its_scheduler_and_a_probe_its_port():
    (document,) = documents("kubernetes/cluster.yaml")  # that of the Dask job is the same, as the next test says
    spec, name = document["spec"], document["metadata"]["name"]
    service = spec["scheduler"]["service"]
    assert service["selector"] == {"dask.org/cluster-name": name, "dask.org/component": "scheduler"}
    for role in ("scheduler", "worker"):
        (container,) = spec[role]["spec"]["containers"]
        ports = {p["name"]: p["containerPort"] for p in container["ports"]}
        assert container["livenessProbe"]["httpGet"]["port"] in ports
        assert argument(container["args"], "--dashboard-address") == f":{ports['http-dashboard']}"
        assert role == "worker" or {p["targetPort"] for p in service["ports"]} == set(ports)


def test_the_cluster_of_the_dask_job_is_that_of_the_cluster_file():
    (cluster,), (job,) = documents("kubernetes/cluster.yaml"), documents("kubernetes/job.yaml")
    text = json.dumps(cluster["spec"]).replace('cluster-name": "dkernel"', 'cluster-name": "dkernel-job"')
    assert job["spec"]["cluster"]["spec"] == json.loads(text)
