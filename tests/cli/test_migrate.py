"""`phalanx migrate`: what is printed can be applied, what is refused has its line, and nothing is read by halves."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from textwrap import indent

import pytest
import yaml

from phalanx.dialects.schema.queue import read_queue

from .test_app import call

QUEUES = "partitions:\n  - queues:\n      - {name: a, submitacl: sue, resources: {guaranteed: {vcore: 1}}}\n"


def config_map(key: str, text: str) -> str:
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: yunikorn-configs}}\n{key}\n{indent(text, '    ')}\n"


def test_the_queues_are_manifests_and_the_notes_stand_beside(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "queues.yaml"
    file.write_text(QUEUES)
    assert call(monkeypatch, "migrate", str(file), "--from", "yunikorn") == 0
    out, err = capsys.readouterr()
    manifests = list(yaml.safe_load_all(out))
    assert [one["metadata"]["name"] for one in manifests] == ["root", "root.a"]
    assert [read_queue(one["metadata"]["name"], one["spec"]).parent for one in manifests] == ["", "root"]
    assert "root.a: submitacl" in err
    assert call(monkeypatch, "migrate", str(file), "--from", "yunikorn", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["queues"] == manifests
    assert [note["field"] for note in found["notes"]] == ["submitacl"]


def test_a_config_map_is_read_plain_or_packed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packed = base64.b64encode(gzip.compress(QUEUES.encode())).decode()
    plain = config_map("data:\n  queues.yaml: |", QUEUES)
    file = tmp_path / "now.yaml"
    for text in (plain, config_map("binaryData:\n  queues.yaml.gz:", packed)):
        file.write_text(text)
        assert call(monkeypatch, "migrate", str(file), "--from", "yunikorn") == 0
        assert "root.a" in capsys.readouterr().out
    for text, said in (
        (f"{plain}---\n{plain}", "several of its ConfigMaps"),
        (config_map("data:\n  log.level: |", "0"), "none of its ConfigMaps"),
        (config_map("binaryData:\n  queues.yaml.gz:", "AAAA"), "cannot be unpacked"),
    ):
        file.write_text(text)
        assert call(monkeypatch, "migrate", str(file), "--from", "yunikorn") == 1
        out, err = capsys.readouterr()
        assert not out
        assert said in err


def test_a_file_that_yunikorn_refuses_is_refused_with_the_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "queues.yaml"
    file.write_text(f"{QUEUES}    colour: red\n")
    assert call(monkeypatch, "migrate", str(file), "--from", "yunikorn") == 1
    out, err = capsys.readouterr()
    assert not out
    assert "queues.yaml:4: there is no field 'colour'" in err
    assert call(monkeypatch, "migrate", str(tmp_path / "nowhere"), "--from", "yunikorn") == 1
    assert "cannot be read" in capsys.readouterr().err
    assert call(monkeypatch, "migrate", str(file), "--from", "slurm") == 2


KUEUE = """
apiVersion: v1
kind: List
items:
- {apiVersion: kueue.x-k8s.io/v1beta1, kind: ResourceFlavor, metadata: {name: f}, spec: {nodeTaints: [{key: gpu}]}}
- apiVersion: kueue.x-k8s.io/v1beta1
  kind: ClusterQueue
  metadata: {name: a}
  spec:
    cohort: all
    admissionScope: {admissionMode: UsageBasedAdmissionFairSharing}
    namespaceSelector: {}
    resourceGroups:
    - {coveredResources: [cpu], flavors: [{name: g, resources: [{name: cpu, nominalQuota: 1}]}]}
- {apiVersion: kueue.x-k8s.io/v1beta1, kind: LocalQueue, metadata: {name: l, namespace: team}, spec: {clusterQueue: a}}
- {apiVersion: batch/v1, kind: Job, metadata: {name: j, namespace: team, labels: {kueue.x-k8s.io/queue-name: l}}}
- {apiVersion: ray.io/v1, kind: RayJob, metadata: {name: r, namespace: team, labels: {kueue.x-k8s.io/queue-name: l}}}
- {apiVersion: example.com/v1, kind: Solver, metadata: {name: s, labels: {kueue.x-k8s.io/queue-name: l}}}
- {apiVersion: apps/v1, kind: Deployment, metadata: {name: d, namespace: team, labels: {kueue.x-k8s.io/queue-name: l}}}
- {apiVersion: batch/v1, kind: Job, metadata: {name: u, namespace: kube-system, labels: {kueue.x-k8s.io/queue-name: l}}}
- {apiVersion: v1, kind: Namespace, metadata: {name: kube-system, labels: {kubernetes.io/metadata.name: kube-system}}}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: other}}
- apiVersion: v1
  kind: ConfigMap
  metadata: {name: kueue-manager-config, namespace: kueue-system}
  data: {controller_manager_config.yaml: "{fairSharing: {}, admissionFairSharing: {usageHalfLifeTime: 1h}, health: {}}"}
"""


def test_each_object_of_kueues_and_what_it_becomes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "now.yaml"
    file.write_text(KUEUE)
    assert call(monkeypatch, "migrate", str(file), "--from", "kueue") == 0
    said = capsys.readouterr().out.partition("\n\n")[0].splitlines()
    assert said == [
        "ResourceFlavor f: the flavor resourceflavor/f",
        "ClusterQueue a: the queue clusterqueue/a below cohort/all, by past usage",
        "    it admits no jobs: Can't admit new workloads: references missing ResourceFlavor(s): g.",
        "LocalQueue l: a name for the queue clusterqueue/a in its namespace",
        "Job j: a job of the queue clusterqueue/a",
        "RayJob r: a job of the queue clusterqueue/a",
        "Solver s: nothing",
        "    Phalanx does not read Kueue's labels on this kind, so the object is not queued",
        "Deployment d: pods of the queue clusterqueue/a",
        "Job u: a job without a queue: managedJobsNamespaceSelector does not select the namespace kube-system",
        "ConfigMap kueue-manager-config: these settings",
        "    health has no effect: it configures only Kueue's own process",
    ]
    assert call(monkeypatch, "migrate", str(file), "--from", "kueue", "--json") == 0
    assert len(json.loads(capsys.readouterr().out)["objects"]) == 9


def test_a_file_without_anything_of_kueues_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "now.yaml"
    file.write_text("kind: ConfigMap\nmetadata: {name: x}\n")
    assert call(monkeypatch, "migrate", str(file), "--from", "kueue") == 1
    assert "has no object of kueue.x-k8s.io" in capsys.readouterr().err


KOORDINATOR = """
kind: List
items:
- apiVersion: scheduling.sigs.k8s.io/v1alpha1
  kind: ElasticQuota
  metadata:
    name: a
    namespace: kube-system
    labels: {quota.scheduling.koordinator.sh/parent: top, quota.scheduling.koordinator.sh/tree-id: t}
  spec: {min: {cpu: 1}, max: {cpu: 2}}
- {apiVersion: scheduling.sigs.k8s.io/v1beta9, kind: ElasticQuota, metadata: {name: odd}}
- {apiVersion: scheduling.sigs.k8s.io/v1alpha1, kind: PodGroup, metadata: {name: g}, spec: {minMember: 3}}
- {apiVersion: scheduling.koordinator.sh/v1alpha1, kind: Reservation, metadata: {name: r}, spec: {}}
- apiVersion: v1
  kind: Pod
  metadata: {name: p, labels: {pod-group.scheduling.sigs.k8s.io: g, quota.scheduling.koordinator.sh/name: a}}
  spec: {schedulerName: koord-scheduler}
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: d}
  spec:
    template:
      metadata: {annotations: {gang.scheduling.koordinator.sh/mode: Strict}}
      spec: {schedulerName: koord-scheduler}
- {apiVersion: v1, kind: Pod, metadata: {name: other}, spec: {}}
"""


def test_each_object_of_koordinators_and_what_it_becomes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "now.yaml"
    file.write_text(KOORDINATOR)
    assert call(monkeypatch, "migrate", str(file), "--from", "koordinator") == 0
    said, _, steps = capsys.readouterr().out.partition("\n\n")
    assert [line.partition(" has no effect")[0] for line in said.splitlines()] == [
        "ElasticQuota a: the queue koordinator/a below koordinator/top",
        "    its parent top is not among these objects: jobs of this quota wait until the parent exists",
        "    quota.scheduling.koordinator.sh/tree-id",
        "ElasticQuota odd: nothing",
        "PodGroup g: a gang of 3 pods",
        "Reservation r: capacity on one node, reserved for the Reservation's owners",
        "Pod p: pods of the gang g, in the queue koordinator/a",
        "Deployment d: pods that start one by one, in the queue koordinator/koordinator-default-quota",
        "    gang.scheduling.koordinator.sh/mode",
    ]
    assert "1. stop Koordinator's scheduler" in steps
    assert call(monkeypatch, "migrate", str(file), "--from", "koordinator", "--json") == 0
    assert len(json.loads(capsys.readouterr().out)["objects"]) == 6
