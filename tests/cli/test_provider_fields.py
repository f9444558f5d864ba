"""`cli/local/node_groups/provider_fields.py`: the field `provider` of a node group in a file."""

from __future__ import annotations

from pathlib import Path

from phalanx.cli.local.node_groups.file import read_node_groups
from phalanx.cli.local.node_groups.provider_fields import Autoscaler, ExecProvider, MachineProvider, WebhookProvider
from phalanx.model.node import Taint
from tests.cli.test_node_groups_file import GOOD


def test_each_field_is_read(tmp_path: Path) -> None:
    (tmp_path / "groups.yaml").write_text(GOOD)
    first, second = read_node_groups(tmp_path / "groups.yaml")
    group, template = first.group, first.group.template
    assert (group.name, group.max_nodes, group.price_per_hour) == ("a100", 8, 30.5)
    assert (group.delay_s, group.timeout_s, group.idle_s) == (240.0, 1200.0, float("inf"))
    assert dict(template.allocatable) == {"cpu": 92_000, "memory": 2**40, "nvidia.com/gpu": 8, "pods": 110}
    assert dict(template.labels) == {"zone": "b", "cloud.google.com/gke-nodepool": "a100"}
    assert template.taints == (Taint("nvidia.com/gpu"),)
    assert first.label == ("cloud.google.com/gke-nodepool", "a100")
    assert first.provider == Autoscaler(namespace="phalanx-node-requests", image="registry.k8s.io/pause:3.10")
    assert second.label == ("phalanx.dev/node-group", "spot")
    assert second.provider == Autoscaler(namespace="batch", image="local/pause")
    assert dict(second.group.template.allocatable)["pods"] == 30


def test_providers_that_remove_nodes_have_a_minimum_and_a_time(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret")
    (tmp_path / "token").chmod(0o600)
    file = tmp_path / "groups.yaml"
    file.write_text(f"""
nodeGroups:
- name: one
  provider: {{exec: {{command: [/bin/true, --zone, b], timeout: 5s}}}}
  allocatable: {{cpu: 4}}
  min: 2
  idle: 90s
- name: three
  provider: {{machines: {{name: gpu}}}}
- name: four
  provider: {{machines: {{apiVersion: machine.openshift.io/v1beta1, name: gpu}}}}
- name: two
  provider: {{webhook: {{url: "https://nodes.example/x", tokenFile: {tmp_path}/token}}}}
  allocatable: {{cpu: 4}}
""")
    one, three, four, two = read_node_groups(file)
    machines = [each.provider for each in (three, four) if isinstance(each.provider, MachineProvider)]
    assert [(each.kind.path(each.namespace, each.name)) for each in machines] == [
        "/apis/cluster.x-k8s.io/v1beta1/namespaces/default/machinedeployments/gpu",
        "/apis/machine.openshift.io/v1beta1/namespaces/openshift-machine-api/machinesets/gpu",
    ]
    assert one.provider == ExecProvider(command=("/bin/true", "--zone", "b"), timeout_s=5.0)
    url, token = "https://nodes.example/x", tmp_path / "token"
    assert two.provider == WebhookProvider(url=url, authority=None, token=token, timeout_s=30.0)
    assert [(each.group.min_nodes, each.group.idle_s) for each in (one, two)] == [(2, 90.0), (0, 600.0)]
