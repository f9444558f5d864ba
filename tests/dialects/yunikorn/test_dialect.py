"""What YuniKorn refuses of a `queues.yaml`, what the rest becomes, and that the docs say so."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import pytest

from phalanx.client.kind import NAMESPACES
from phalanx.dialects.frame.dialect import Said
from phalanx.dialects.yunikorn.dialect import CONFIGURATIONS, NAMESPACE
from phalanx.dialects.yunikorn.dialect import YUNIKORN as YUNIKORN_DIALECT
from phalanx.dialects.yunikorn.gangs import GROUPS as GROUPS_WORD
from phalanx.dialects.yunikorn.gangs import QUEUE_PREFIX, USER, options_of
from phalanx.dialects.yunikorn.gangs import SCHEDULER_NAME as YUNIKORN

PAGE = Path(__file__).parents[3] / "docs" / "dialects" / "yunikorn.md"


def in_queue(text: str) -> str:
    """The file whose queue `a` below the root has these fields."""
    return "partitions:\n  - queues:\n      - name: a\n" + indent(dedent(text), " " * 8)


# --- pods -------------------------------------------------------------------------------------------------------------

GROUPS = """[{"name": "driver", "minMember": 1, "minResource": {"cpu": "500m", "memory": "1Gi"}},
             {"Name": "work", "minmember": 3, "minResource": {"cpu": 1}}]"""


def meta(labels: dict[str, str], **annotations: str) -> dict[str, Any]:
    theirs = {f"yunikorn.apache.org/{key.replace('_', '-')}": text for key, text in annotations.items()}
    return {"name": "p", "namespace": "ns", "labels": labels, "annotations": theirs}


MADE = """
    partitions:
      - placementrules: [{name: tag, value: namespace, create: true, parent: {name: user, create: true}}]
        queues:
          - name: root
            submitacl: '*'
            properties: {preemption.delay: 1m}
            childtemplate: {maxapplications: 2, resources: {guaranteed: {vcore: 1}, max: {vcore: 2, memory: 4G}}}
            queues: [{name: a}]
"""
ANNOTATIONS = {
    "yunikorn.apache.org/namespace.quota": '{"cpu": "2500m", "memory": "1Gi"}',
    "yunikorn.apache.org/namespace.maxApps": "7",
}


@pytest.mark.parametrize(
    ("notes", "limit", "running"),
    [
        ({}, {"cpu": 2000, "memory": 4 * 10**9}, 2),
        (ANNOTATIONS, {"cpu": 2500, "memory": 1 << 30}, 7),
        ({"yunikorn.apache.org/namespace.max.cpu": "1"}, {"cpu": 1000}, 2),
        (
            {"yunikorn.apache.org/namespace.quota": "5", "yunikorn.apache.org/namespace.maxApps": "-1"},
            {"cpu": 2000, "memory": 4 * 10**9},
            2,
        ),
    ],
)
def test_a_queue_that_a_rule_makes_has_the_template_or_what_its_namespace_says(
    notes: dict[str, str], limit: dict[str, int], running: int
) -> None:
    config = {f"{NAMESPACE}/yunikorn-configs": {"data": {"queues.yaml": MADE}}}
    spaces = {"lab": {"metadata": {"name": "lab", "annotations": notes}}}
    defined = YUNIKORN_DIALECT.define({CONFIGURATIONS: config, NAMESPACES: spaces})
    said = Said(gang="g", namespace="lab", queue=QUEUE_PREFIX, options={USER: "sue"})
    claim = YUNIKORN_DIALECT.claim(defined, said, {})
    assert claim is not None
    assert claim.queue == "yunikorn/root.sue.lab"
    above, leaf = claim.queues
    assert (above.name, above.parent, above.quotas) == ("yunikorn/root.sue", "yunikorn/root", ())
    assert (leaf.name, leaf.parent) == (claim.queue, above.name)
    assert (dict(leaf.quotas[0].guaranteed), dict(leaf.quotas[0].limit)) == ({"cpu": 1000}, limit)
    assert (leaf.total.running, leaf.preemption.delay_s) == (running, 60.0)


@pytest.mark.parametrize(("queue", "starts"), [("fifo", True), ("fair", False), ("made.x", False)])
def test_a_gang_needs_a_leaf_that_sorts_by_fifo(queue: str, starts: bool) -> None:
    text = """
        partitions:
          - placementrules: [{name: provided, create: true}]
            queues:
              - {name: fifo, submitacl: '*'}
              - {name: fair, submitacl: '*', properties: {application.sort.policy: fair}}
              - name: made
                parent: true
                submitacl: '*'
                childtemplate: {properties: {application.sort.policy: fair}}
    """
    defined = YUNIKORN_DIALECT.define(
        {CONFIGURATIONS: {f"{NAMESPACE}/yunikorn-configs": {"data": {"queues.yaml": dedent(text)}}}}
    )
    for groups in (GROUPS, ""):
        found = options_of(meta({"applicationId": "app", "queue": f"root.{queue}"}, task_groups=groups), YUNIKORN)
        said = Said(gang="g", namespace="n", queue=found["phalanx.dev/queue"], options=found)
        claim = YUNIKORN_DIALECT.claim(defined, said, {})
        assert claim is not None
        assert (claim.blocked is None) == (starts or not groups)


@pytest.mark.parametrize(("queue", "user"), [("x.x." * 50_000, "sue"), ("root.a", "x.x." * 50_000)])
def test_a_reason_shows_the_start_of_a_long_name_only(queue: str, user: str) -> None:
    text = "partitions: [{queues: [{name: root, queues: [{name: a}]}]}]"
    config = {f"{NAMESPACE}/yunikorn-configs": {"data": {"queues.yaml": text}}}
    said = Said(gang="g", namespace="n", queue=QUEUE_PREFIX + queue, options={USER: user})
    claim = YUNIKORN_DIALECT.claim(YUNIKORN_DIALECT.define({CONFIGURATIONS: config}), said, {})
    assert claim is not None
    assert claim.blocked is not None
    assert "x.x." in claim.blocked.text
    assert len(claim.blocked.text) < 500


@pytest.mark.parametrize(
    ("acls", "user", "groups", "admitted"),
    [
        ({"a": "sue,kim"}, "sue", "", True),
        ({"a": "sue,kim"}, "bob", "ops", False),
        ({"a": "sue ops,dev"}, "bob", "qa,ops", True),
        ({"a": " ops"}, "ops", "", False),
        ({"root": "*"}, "anybody", "", True),
        ({"root": " *"}, "anybody", "", True),
        ({"root": "", "a": ""}, "sue", "", False),
        ({}, "sue", "", False),
        ({"beside": "*"}, "sue", "", False),
        ({"a!": "sue"}, "sue", "", True),
    ],
)
def test_an_application_is_admitted_by_the_acl_of_its_queue_or_of_one_above(
    acls: dict[str, str], user: str, groups: str, admitted: bool
) -> None:
    """`a!` is the adminacl of `a`: administrators of a queue may submit to it."""

    def said(name: str) -> str:
        lines = [f"submitacl: '{acls[name]}'"] if name in acls else []
        lines += [f"adminacl: '{acls[name + '!']}'"] if name + "!" in acls else []
        return "".join(f", {line}" for line in lines)

    queues = f"[{{name: a{said('a')}}}, {{name: beside{said('beside')}}}]"
    text = f"partitions: [{{queues: [{{name: root{said('root')}, queues: {queues}}}]}}]"
    config = {f"{NAMESPACE}/yunikorn-configs": {"data": {"queues.yaml": text}}}
    options = {USER: user, GROUPS_WORD: groups}
    gang = Said(gang="g", namespace="n", queue=f"{QUEUE_PREFIX}root.a", options=options)
    claim = YUNIKORN_DIALECT.claim(YUNIKORN_DIALECT.define({CONFIGURATIONS: config}), gang, {})
    assert claim is not None
    assert (claim.blocked is None) == admitted
    if claim.blocked is not None:
        assert f"the user {user!r} may not submit to root.a" in claim.blocked.text
