"""The Helm chart installs what kustomize installs."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import yaml

from phalanx.cli.app import build
from phalanx.cli.local.node_groups.file import read_node_groups
from phalanx.errors import PhalanxError
from tests.deploy.cluster import cluster
from tests.kubectl import KUBECTL

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
HELM = shutil.which("helm", path=str(Path(sys.executable).parent)) or shutil.which("helm")
pytestmark = pytest.mark.skipif(HELM is None, reason="there is no helm (requirements-dev.txt has it for x86_64)")

Objects: TypeAlias = dict[tuple[str, str, str], Any]
OURS = {"app.kubernetes.io/name": "phalanx", "app.kubernetes.io/part-of": "phalanx"}
# Two components patch what a chart writes. Koordinator and scheduler-plugins share a definition: a cluster takes one.
LEFT_OUT = {"before-1.30", "dashboard-proxy", "scheduler-plugins"}
COMPONENTS = sorted({path.parent.name for path in DEPLOY.glob("components/*/kustomization.yaml")} - LEFT_OUT)


@pytest.fixture(scope="module")
def chart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("chart")
    assert (
        build("deploy")(["deploy", "--chart", str(directory)], exit_on_error=False, result_action="return_value")
        is None
    )
    return directory / "phalanx"


def template(chart: Path, *words: str, namespace: str = "phalanx-system") -> subprocess.CompletedProcess[str]:
    assert HELM is not None
    command = (HELM, "template", "phalanx", str(chart), "--namespace", namespace, "--kube-version", "1.36.0", *words)
    return subprocess.run(command, capture_output=True, text=True, check=False)


def rendered(chart: Path, *words: str) -> Objects:
    done = template(chart, *words)
    assert done.returncode == 0, done.stderr
    return named(done.stdout)


def named(text: str) -> Objects:
    found: Objects = {}
    for each in yaml.safe_load_all(text):
        if each is not None:
            name = each["metadata"]["name"], each["metadata"].get("namespace", "")
            assert (each["kind"], *name) not in found
            found[(each["kind"], *name)] = each
    return found


def kustomized(tmp_path: Path, overlay: str, components: list[str]) -> Objects:
    """Return kustomize's objects of an overlay with these components, without the namespace, which Helm creates."""
    shutil.copytree(DEPLOY, tmp_path / "deploy")
    own = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [f"deploy/overlays/{overlay}"],
        "components": [f"deploy/components/{name}" for name in components],
    }
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(own))
    done = subprocess.run((KUBECTL, "kustomize", str(tmp_path)), capture_output=True, text=True, check=True)
    return {key: each for key, each in named(done.stdout).items() if key[:2] != ("Namespace", "phalanx-system")}


def plain(value: Any) -> Any:
    """Without the marks of a chart: empty fields, the fields that values add, and what Helm alone reads."""
    if isinstance(value, list):
        return [plain(each) for each in value]
    if not isinstance(value, dict):
        return value
    alone = {"image", "imagePullPolicy", "checksum/policy", "checksum/node-groups", "helm.sh/resource-policy"}
    parts = {key: plain(each) for key, each in value.items() if key not in alone}
    return {key: each for key, each in parts.items() if each not in ({}, [], None)}


@pytest.mark.parametrize(
    ("overlay", "components"),
    [
        pytest.param("webhook", ["volcano", "slurm"], marks=pytest.mark.slow),
        pytest.param("mutating", [], marks=pytest.mark.slow),
        pytest.param("validating", [], marks=pytest.mark.slow),
        pytest.param("mutating", COMPONENTS, marks=pytest.mark.long),
        pytest.param("webhook", ["scheduler-plugins"], marks=pytest.mark.long),
    ],
    ids=lambda each: each if isinstance(each, str) else f"{len(each)} components",
)
def test_a_chart_installs_what_kustomize_installs(
    chart: Path, tmp_path: Path, overlay: str, components: list[str]
) -> None:
    chosen = ("--set", f"components={{{','.join(components)}}}") if components else ()
    found = rendered(chart, "--set", f"admission={overlay}", *chosen)
    expected = kustomized(tmp_path, overlay, components)
    assert sorted(found) == sorted(expected)
    for key, each in expected.items():
        labels = found[key]["metadata"]["labels"]
        assert labels.items() >= OURS.items()
        each["metadata"]["labels"] = labels  # kustomize leaves the objects of a component without ours
        assert plain(found[key]) == plain(each), key
        if each["kind"] == "Deployment":
            assert [one["image"] for one in found[key]["spec"]["template"]["spec"]["containers"]] == ["phalanx:0.1.0"]


@pytest.mark.slow
def test_values_change_the_scheduler(chart: Path, tmp_path: Path) -> None:
    (tmp_path / "values.yaml").write_text(
        yaml.safe_dump(
            {
                "image": {
                    "repository": "registry.example/phalanx",
                    "tag": "1.2",
                    "pullSecrets": [{"name": "registry"}],
                },
                "policy": {"backfill": "conservative", "factors": {"age": 1000}},
                "components": ["node-groups"],
                "nodeGroups": [{"name": "spot", "provider": {"autoscaler": {}}, "allocatable": {"cpu": 8}}],
                "scheduler": {
                    "replicas": 3,
                    "args": ["--ledger=postgresql://phalanx@db/phalanx"],
                    "env": [{"name": "PGPASSWORD", "valueFrom": {"secretKeyRef": {"name": "ledger", "key": "word"}}}],
                    "resources": {"requests": {"cpu": "2"}},
                    "nodeSelector": {"role": "control"},
                    "tolerations": [{"key": "control", "operator": "Exists"}],
                },
            }
        )
    )
    found = rendered(chart, "--values", str(tmp_path / "values.yaml"))
    spec = found["Deployment", "phalanx", "phalanx-system"]["spec"]
    pod, (container,) = spec["template"]["spec"], spec["template"]["spec"]["containers"]
    assert (spec["replicas"], container["image"]) == (3, "registry.example/phalanx:1.2")
    assert pod["imagePullSecrets"] == [{"name": "registry"}]
    assert container["args"][-3:] == [
        "--policy=/etc/phalanx/policy.yaml",
        "--node-groups=/etc/phalanx-node-groups/node-groups.yaml",
        "--ledger=postgresql://phalanx@db/phalanx",
    ]
    assert [each["name"] for each in container["env"]] == ["POD_IP", "PGPASSWORD"]
    assert container["resources"]["requests"] == {"cpu": "2", "memory": "512Mi"}
    assert (pod["nodeSelector"], pod["tolerations"]) == (
        {"role": "control"},
        [{"key": "control", "operator": "Exists"}],
    )
    text = found["ConfigMap", "phalanx-policy", "phalanx-system"]["data"]["policy.yaml"]
    assert yaml.safe_load(text) == {"backfill": "conservative", "factors": {"age": 1000}}
    (tmp_path / "groups.yaml").write_text(
        found["ConfigMap", "phalanx-node-groups", "phalanx-system"]["data"]["node-groups.yaml"]
    )
    assert [each.group.name for each in read_node_groups(tmp_path / "groups.yaml")] == ["spot"]
    assert ("Role", "phalanx-scheduler", "phalanx-node-requests") in found
    assert pod["volumes"] == [
        {"name": "policy", "configMap": {"name": "phalanx-policy"}},
        {"name": "node-groups", "configMap": {"name": "phalanx-node-groups"}},
    ]
    assert container["volumeMounts"] == [
        {"name": "policy", "mountPath": "/etc/phalanx"},
        {"name": "node-groups", "mountPath": "/etc/phalanx-node-groups"},
    ]


@pytest.mark.slow
def test_the_monitoring_of_the_prometheus_operator_is_a_value(chart: Path) -> None:
    found = rendered(chart, "--set", "monitoring.serviceMonitor=true", "--set", "monitoring.alerts=true")
    assert ("ServiceMonitor", "phalanx", "phalanx-system") in found
    rules = found["PrometheusRule", "phalanx", "phalanx-system"]["spec"]
    assert rules == yaml.safe_load((DEPLOY / "prometheus" / "alerts.yaml").read_text())


@pytest.mark.slow
def test_queues_outlive_the_chart(chart: Path) -> None:
    definitions = [each for key, each in rendered(chart).items() if key[0] == "CustomResourceDefinition"]
    assert definitions
    assert all(each["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep" for each in definitions)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--set", "admission=none"), 'admission: "none" is not known; say mutating, webhook or validating'),
        (("--set", "components={volcano,vulcano}"), 'components: there is no component "vulcano"'),
        (("--set", "components={dashboard-proxy}"), 'components: there is no component "dashboard-proxy"'),
        (("--kube-version", "1.29.0"), "chart requires kubeVersion: >=1.30.0-0"),
    ],
)
def test_a_wrong_value_is_refused(chart: Path, words: tuple[str, ...], complaint: str) -> None:
    done = template(chart, *words)
    assert done.returncode != 0
    assert complaint in done.stderr


def test_another_namespace_is_refused(chart: Path) -> None:
    done = template(chart, namespace="default")
    assert "install the chart with `--namespace phalanx-system`" in done.stderr


def test_a_chart_that_exists_is_kept(chart: Path) -> None:
    with pytest.raises(PhalanxError, match="exists already"):
        build("deploy")(["deploy", "--chart", str(chart.parent)], exit_on_error=False, result_action="return_value")


@pytest.mark.long
def test_the_life_of_a_release(chart: Path, tmp_path: Path) -> None:
    """Helm installs the chart in a cluster, changes it, and takes it away; queues stay."""

    def helm(*words: str) -> str:
        assert HELM is not None
        command = (HELM, *words, "--namespace", "phalanx-system", "--kubeconfig", str(there.server.kubeconfig))
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    with cluster(tmp_path) as there:
        assert "STATUS: deployed" in helm("install", "phalanx", str(chart), "--create-namespace")
        assert there.get("deployment", "phalanx", "--namespace", "phalanx-system")["spec"]["replicas"] == 2
        there.kubectl(
            "apply", "--filename", "-", text="{apiVersion: phalanx.dev/v1, kind: Queue, metadata: {name: lab}}"
        )
        helm("upgrade", "phalanx", str(chart), "--set", "policy.backfill=greedy", "--set", "components={volcano}")
        pod = there.get("deployment", "phalanx", "--namespace", "phalanx-system")["spec"]["template"]["spec"]
        assert {"--policy=/etc/phalanx/policy.yaml", "--dialect=volcano"} <= set(pod["containers"][0]["args"])
        helm("uninstall", "phalanx")
        assert there.get("deployments", "--namespace", "phalanx-system")["items"] == []
        assert [each["metadata"]["name"] for each in there.get("queues.phalanx.dev")["items"]] == ["lab"]
