"""The Helm values: only keys that the chart has, and what Kubernetes takes where it hands them on."""

from pathlib import Path

import pytest
import yaml

from tests.deploy.places import documents

CHECKED = ["helm/values.yaml"]
KEYS = yaml.safe_load((Path(__file__).parent / "helm_keys.yaml").read_text())
(VALUES,) = documents("helm/values.yaml")


def unknown(values, keys, path=""):
    """Keys that the chart does not have; below {} anything may stand."""
    if not isinstance(values, dict) or keys == {}:
        return []
    if keys is None:
        return [path]
    found = []
    for key, value in values.items():
        found += unknown(value, keys[key], f"{path}.{key}") if key in keys else [f"{path}.{key}"]
    return found


def test_the_chart_has_every_key():
    assert unknown(VALUES, KEYS) == []


@pytest.mark.parametrize("broken", [{"scheduler": {"replica": 1}}, {"workers": {}}, {"worker": {"replicas": {"n": 2}}}])
def test_a_key_that_it_has_not_is_found(broken):
    assert len(unknown(broken, KEYS)) == 1


def test_kubernetes_takes_what_the_chart_hands_on():
    kubernetes_validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    for role in ("scheduler", "worker"):
        chosen = VALUES[role]
        container = {
            "name": role,
            "image": f"{chosen['image']['repository']}:{chosen['image']['tag']}",
            "resources": {"limits": {k: str(v) for k, v in chosen["resources"]["limits"].items()}},
            "livenessProbe": chosen["livenessProbe"],
            "env": chosen.get("env", []),
        }
        spec = {"containers": [container]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
        kubernetes_validate.validate(pod, "1.31")
        assert container["image"] == "dkernel:0.1.0"


def test_its_workers_have_the_keys_of_the_store_that_the_manifests_read():
    (train,) = documents("kubernetes/train.yaml")
    (source,) = train["spec"]["template"]["spec"]["containers"][0]["envFrom"]
    keys = [each["valueFrom"]["secretKeyRef"] for each in VALUES["worker"]["env"]]
    assert {key["name"] for key in keys} == {source["secretRef"]["name"]}
    assert {key["key"] for key in keys} >= {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}
