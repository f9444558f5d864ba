"""`phalanx scheduler --node-groups FILE`: each field, and errors with file, line and what to write."""

from __future__ import annotations

from pathlib import Path

import pytest

from phalanx.cli.local.node_groups.file import read_node_groups
from phalanx.errors import PhalanxError

GOOD = """
nodeGroups:
- name: a100
  provider: {autoscaler: {}}
  nodeLabel: cloud.google.com/gke-nodepool=a100
  max: 8
  price: 30.5
  delay: 4m
  timeout: 20m
  allocatable: {cpu: 92, memory: 1Ti, nvidia.com/gpu: 8}
  labels: {zone: b}
  taints: [{key: nvidia.com/gpu, effect: NoSchedule}]
- name: spot
  provider: {autoscaler: {namespace: batch, image: local/pause}}
  allocatable: {cpu: "16", pods: 30}
"""


def read(tmp_path: Path, text: str) -> object:
    file = tmp_path / "groups.yaml"
    file.write_text(text)
    return read_node_groups(file)


def test_the_example_can_be_read() -> None:
    example = Path(__file__).parents[2] / "examples" / "autoscaling" / "node-groups.yaml"
    assert [each.group.name for each in read_node_groups(example)] == ["a100-spot", "a100", "lab", "rack-b", "capi-gpu"]


@pytest.mark.parametrize(
    ("before", "after", "error"),
    [
        ("name: a100", "name: A_100", ":3: nodeGroups[0].name: 'A_100' is not a valid name"),
        ("name: spot", "name: a100", ":13: nodeGroups[1].name: there are two node groups a100"),
        ("gke-nodepool=a100", "gke-nodepool", "is not KEY=VALUE"),
        ("cloud.google.com/gke-nodepool=a100", "phalanx.dev/node-group=spot", "the nodes of a100 have the label"),
        (
            "{autoscaler: {}}",
            "{cloud: {}}",
            ":4: nodeGroups[0].provider: name one provider: autoscaler, mach",
        ),
        ("{autoscaler: {}}", "{autoscaler: {url: x}}", "there is no such field"),
        ("{autoscaler: {}}", "{autoscaler: {}, exec: {}}", "name one provider"),
        ("max: 8", "min: 1", "nodeGroups[0].min: the autoscaler keeps a minimum"),
        ("max: 8", "idle: 5m", "nodeGroups[0].idle: the autoscaler keeps a minimum"),
        ("{autoscaler: {}}", "{exec: {}}", ":4: nodeGroups[0].provider.exec.command: the command is empty"),
        ("{autoscaler: {}}", "{exec: {command: echo}}", "is not a list"),
        ("{autoscaler: {}}", "{exec: {command: [echo]}}", "command[0]: 'echo' is not an absolute path"),
        ("{autoscaler: {}}", "{exec: {command: [/etc/passwd]}}", "no program /etc/passwd that this user may run"),
        ("{autoscaler: {}}", "{exec: {command: [/bin/true], timeout: 5m}}", "exec.timeout: 300 s: write more than 0"),
        ("{autoscaler: {}}", "{webhook: {}}", "webhook.url: it has no url"),
        ("{autoscaler: {}}", "{webhook: {url: http://a.example}}", "webhook.url: 'http://a.example' is not encrypted"),
        ("{autoscaler: {}}", "{webhook: {url: https://a.example, caFile: ca}}", "caFile: 'ca' is not an absolute path"),
        ("{autoscaler: {}}", "{webhook: {url: https://a.example, caFile: /nowhere}}", "caFile: the certificates in"),
        ("{autoscaler: {}}", "{webhook: {url: https://a.example, tokenFile: /etc/passwd}}", "other users may read"),
        ("{autoscaler: {}}", "{machines: {}}", "machines.name: it has no name"),
        (
            "{autoscaler: {}}",
            "{machines: {name: a, kind: MachinePool}}",
            "known are MachineDeployment of cl",
        ),
        ("{autoscaler: {}}", "{machines: {name: a/b}}", "machines.name: 'a/b' is not a valid object name"),
        ("{autoscaler: {}}", "{machines: {name: a, kubeconfig: /nowhere}}", "there is no file /nowhere"),
        ("{autoscaler: {}}", "{externalgrpc: {address: 127.0.0.1:86}}", "externalgrpc.group: it has no group"),
        ("{autoscaler: {}}", "{externalgrpc: {address: n:86, group: a}}", "address: 'n:86' is not encrypted"),
        (
            "{autoscaler: {}}",
            "{externalgrpc: {address: n:86, group: a, caFile: /etc/passwd}}",
            "/etc/passwd contains no PEM data",
        ),
        ("{autoscaler: {}}", "{externalgrpc: {keyFile: /nowhere}}", "keyFile: /nowhere cannot be read"),
        ("gke-nodepool=a100", "gke-nodepool=a 100", "nodeLabel: 'a 100' is no value: a value has at most 63 letters"),
        ("gke-nodepool=a100", "gke-nodepool=a=b", "nodeLabel: 'a=b' is no value"),
        ("labels: {zone: b}", "labels: {/zone: b}", "labels./zone: '/zone' is not a key: '' is not a domain"),
        ("labels: {zone: b}", "labels: {cloud.google.com/gke-nodepool: b}", "gke-nodepool=a100; a label has one value"),
        ("nvidia.com/gpu: 8}", "nvidia gpu: 8}", "'nvidia gpu' is not a key"),
        ('{cpu: "16", pods: 30}', "{cpu: 0}", "a node must have resources and must accept pods"),
        ('{cpu: "16", pods: 30}', "{cpu: 1, pods: 0}", "a node must have resources and must accept pods"),
        ("key: nvidia.com/gpu,", "key: nvidia gpu,", "taints[0].key: 'nvidia gpu' is not a key"),
        ("{autoscaler: {}}", "{autoscaler: {namespace: A}}", "'A' is not a valid namespace name"),
        ("{autoscaler: {}}", "{autoscaler: {image: a b}}", "'a b' is not an image"),
        ("timeout: 20m", "timeout: 1m", "60 s is shorter than the delay, 240 s"),
        ("max: 8", "max: 0", "is not a whole number from 1 to 10000"),
        ("max: 8", "maximum: 8", "there is no such field; did you mean max?"),
        ("effect: NoSchedule", "effect: Never", "'Never' is not one of NoSchedule"),
        ('{cpu: "16", pods: 30}', "{}", "the resources of a node are missing"),
        ("price: 30.5", "price: -1", "is not a number of at least 0"),
        (GOOD, "nodeGroups: []", "the file has no node group"),
        (GOOD, "", "groups.yaml: the file is empty"),
        ('{cpu: "16", pods: 30}', "{cpus: 16}", "allocatable.cpus: no node has a resource 'cpus': write cpu, memory,"),
        ('{cpu: "16", pods: 30}', "{gpu: 1}", "hugepages-SIZE or a vendor's, like nvidia.com/gpu"),
        ("max: 8", "max: 8\n  max: 9", "max is stated twice; leave one of them out"),
        (
            "labels: {zone: b}",
            "labels: {phalanx.dev/node-group: spot}",
            "the nodes of spot have the label phalanx.dev/node",
        ),
    ],
)
def test_an_error_says_what_is_wrong_and_where(tmp_path: Path, before: str, after: str, error: str) -> None:
    assert before in GOOD
    with pytest.raises(PhalanxError) as caught:
        read(tmp_path, GOOD.replace(before, after, 1))
    assert error in str(caught.value)
