"""`dialects/yunikorn/queues.py`: translates the queues of a YuniKorn configuration into Phalanx Queues."""

from __future__ import annotations

from textwrap import dedent
from typing import Any

import pytest

from phalanx.dialects.schema.fields import LONGEST_S
from phalanx.dialects.schema.queue import read_queue
from phalanx.dialects.yunikorn.checks import read
from phalanx.dialects.yunikorn.queues import Translation, translate

SITE = """
    partitions:
      - name: default
        preemption: {enabled: yes}
        nodesortpolicy: {type: binpacking}
        placementrules:
          - name: tag
            value: namespace
            create: true
            parent: {name: fixed, value: tenants}
        queues:
          - name: Root
            submitacl: '*'
            queues:
              - name: tenants
                parent: true
                maxapplications: 20
                resources:
                  guaranteed: {vcore: 4, memory: 8Gi}
                  max: {vcore: 8, nvidia.com/gpu: 0}
                properties:
                  application.sort.priority: disabled
                  preemption.delay: 1m30s
                queues:
                  - name: Group_A
                    maxapplications: 10
                    resources: {guaranteed: {vcore: 1500m}}
                    limits:
                      - {limit: each, users: [sue, "*"], maxapplications: 2, maxresources: {vcore: 1}}
                  - name: group-b
                    maxapplications: 10
                    properties: {preemption.policy: disabled, priority.offset: "-5", colour: blue}
"""


def translated(text: str) -> Translation:
    return translate(read(dedent(text)))


def test_a_site_becomes_queues_that_can_be_applied() -> None:
    found = translated(SITE)
    for name, spec in found.queues.items():
        assert read_queue(name, spec).parent == spec.get("parent", "")
    assert found.queues == {
        "root": {"order": "fill"},
        "root.tenants": {
            "parent": "root",
            "quotas": [{"guaranteed": {"cpu": "4", "memory": "8Gi"}, "limit": {"cpu": "8", "nvidia.com/gpu": "0"}}],
            "order": "fair",
            "preemption": {"reclaim": "lower-or-equal", "delay": 90.0},
            "limits": {"total": {"running": 20}},
        },
        "root.tenants.group-a": {
            "parent": "root.tenants",
            "quotas": [{"guaranteed": {"cpu": "1500m"}}],
            "order": "fifo",
            "preemption": {"reclaim": "lower-or-equal", "delay": 90.0},
            "limits": {"total": {"running": 10}, "perUser": {"running": 2, "resources": {"cpu": "1"}}},
        },
        "root.tenants.group-b": {
            "parent": "root.tenants",
            "order": "fifo",
            "priority": -5,
            "preemption": {"minRun": LONGEST_S, "reclaim": "lower-or-equal", "delay": 90.0},
            "limits": {"total": {"running": 10}},
        },
    }


def test_what_has_no_effect_is_said() -> None:
    assert {(note.where, note.field) for note in translated(SITE).notes} == {
        ("partition default", "placementrules"),
        ("partition default", "nodesortpolicy"),
        ("root.tenants.group_a", "name"),
        ("root.tenants.group-a", "users"),
        ("root.tenants.group-b", "colour"),
    }


def test_other_partitions_are_left_out_and_said() -> None:
    found = translated("partitions: [{name: gpu, queues: [{name: root}]}, {queues: [{name: Default}]}]")
    assert list(found.queues) == ["root", "root.default"]
    assert [note.where for note in found.notes] == ["partition gpu"]


def test_names_that_become_the_same_stay_apart() -> None:
    found = translated("partitions: [{queues: [{name: root, queues: [{name: a_b}, {name: 'a#b'}]}]}]")
    assert list(found.queues) == ["root", "root.a-b", "root.a-b-2"]


@pytest.mark.parametrize(
    ("preemption", "properties", "spec"),
    [
        ("{}", "{}", {"reclaim": "lower-or-equal", "delay": 30.0}),
        ("{enabled: off}", "{}", {}),
        ("{}", "{preemption.policy: fence}", {"fence": True, "reclaim": "lower-or-equal", "delay": 30.0}),
        ("{}", "{preemption.policy: disabled}", {"minRun": LONGEST_S, "reclaim": "lower-or-equal", "delay": 30.0}),
        ("{}", "{preemption.delay: soon}", {"reclaim": "lower-or-equal", "delay": 30.0}),  # a bad value is the default
    ],
)
def test_preemption_of_a_leaf(preemption: str, properties: str, spec: dict[str, Any]) -> None:
    queue = f"{{name: a, resources: {{guaranteed: {{vcore: 1}}}}, properties: {properties}}}"
    found = translated(f"partitions: [{{preemption: {preemption}, queues: [{queue}]}}]")
    assert found.queues["root.a"].get("preemption", {}) == spec
