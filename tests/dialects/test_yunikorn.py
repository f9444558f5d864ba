"""What YuniKorn refuses of a `queues.yaml`, what the rest becomes, and that the docs say so."""

from __future__ import annotations

import json
import os
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import pytest

from phalanx.client.kind import NAMESPACES
from phalanx.client.quantity import amount
from phalanx.dialects.frame.dialect import Ignored, Said
from phalanx.dialects.schema.fields import LONGEST_S
from phalanx.dialects.schema.queue import read_queue
from phalanx.dialects.yunikorn.checks import read
from phalanx.dialects.yunikorn.configuration import ConfigurationError, PlacementRule
from phalanx.dialects.yunikorn.dialect import CONFIGURATIONS, NAMESPACE
from phalanx.dialects.yunikorn.dialect import YUNIKORN as YUNIKORN_DIALECT
from phalanx.dialects.yunikorn.gangs import GROUPS as GROUPS_WORD
from phalanx.dialects.yunikorn.gangs import POD, QUEUE_PREFIX, USER, options_of, queue_of
from phalanx.dialects.yunikorn.gangs import SCHEDULER_NAME as YUNIKORN
from phalanx.dialects.yunikorn.placement.made import NAMESPACE as NAMESPACE_TABLE
from phalanx.dialects.yunikorn.placement.rules import Application, QueueTree, place, tree_of
from phalanx.dialects.yunikorn.queues import TABLE, Translation, translate

PAGE = Path(__file__).parents[2] / "docs" / "dialects" / "yunikorn.md"

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


def in_queue(text: str) -> str:
    """The file whose queue `a` below the root has these fields."""
    return "partitions:\n  - queues:\n      - name: a\n" + indent(dedent(text), " " * 8)


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


@pytest.mark.parametrize(
    "text",
    [
        "",
        "checksum: ABC",
        "partitions: [{queues: [{name: one}, {name: two}]}]",
        in_queue("resources: {max: {vcore: 10, memory: 10 G, pods: '10'}}"),
        in_queue("adminacl: 'kim,sue dev,ops'"),
        in_queue("limits: [{users: [user.name@lab$], maxapplications: 1}, {groups: [g, '*'], maxapplications: 2}]"),
        in_queue("properties: {any.thing: ~}"),
        "partitions: [{queues: [{name: a, parent: yes}], placementrules: [{name: fixed, value: a.b, create: on}]}]",
        "partitions: [{queues: [{name: a}], placementrules: [{name: user, filter: {type: DENY, users: ['^s.*']}}]}]",
        "partitions: [{queues: [{name: a}], limits: [{users: ['*'], maxapplications: 5}]}]",
    ],
)
def test_taken(text: str) -> None:
    assert read(text) is not None


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("partitions: [", 1, "no YAML"),
        ("a: &a [*a]", 1, "more than 100 levels"),
        ("a: " + "[" * 5000, 1, "more than 200 lists or mappings are within each other"),
        ("a: [" + "b, " * 200_000 + "]", 1, "more than 100000 names and values"),
        ("a: &a [" + "b, " * 30_000 + "]\nc: *a", 1, "more than 50000 values"),
        ("partitions:\n  - queues:\n" + "    - {name: a%s}\n" * 5000 % (*range(5000),), 5002, "more than 5000 queues"),
        ("partitions:\n  - name: default\n    colour: red", 3, "no field 'colour' of partitions"),
        ("partitions:\n  - name: default", 2, "no queues"),
        ("partitions:\n  - queues: [{name: a}]\n    queues: []", 3, "twice"),
        ("partitions:\n  - {queues: [{name: a}]}\n  - {name: Default, queues: [{name: a}]}", 3, "above already"),
        ("partitions:\n  - queues:\n      - name: root\n        resources: {max: {vcore: 1}}", 4, "root has what"),
        ("partitions:\n  - queues: [{name: A}, {name: a}]", 2, "'a' beside it already"),
        ("partitions:\n  - queues: [{name: a.b}]", 2, "without a dot"),
        (in_queue("parent: true\nchildtemplate:\n  resources:\n    max: {memory: 1.5}"), 7, "no fractions"),
        (
            in_queue("parent: true\nchildtemplate:\n  resources: {guaranteed: {vcore: 2}, max: {vcore: 1}}"),
            6,
            "of this template",
        ),
        (in_queue("maxapplications: -1"), 4, "cannot be read"),
        (in_queue("submitacl: a b c"), 4, "one blank"),
        (in_queue("resources:\n  max: {memory: 1.5}"), 5, "no fractions"),
        (in_queue("resources:\n  max: {memory: 500m}"), 5, "no fractions"),
        (in_queue("resources:\n  max:\n    memory:"), 6, "no amount"),
        (in_queue("resources:\n  max: {memory: 9999999E}"), 5, "more than there can be"),
        (in_queue("resources:\n  guaranteed: {vcore: 2}\n  max: {vcore: 1}"), 5, "more than the queue 'a' may have"),
        (in_queue("resources: {max: {vcore: 1}}\nqueues:\n  - {name: b, resources: {max: {vcore: 2}}}"), 6, "above"),
        (
            in_queue("resources: {guaranteed: {vcore: 1}}\nqueues: [{name: b, resources: {guaranteed: {vcore: 2}}}]"),
            4,
            "less",
        ),
        (
            in_queue("resources: {max: {vcore: 1}}\nqueues: [{name: b, resources: {guaranteed: {vcore: 2}}}]"),
            4,
            "together",
        ),
        (in_queue("maxapplications: 1\nqueues:\n  - {name: b, maxapplications: 2}"), 6, "may run (1)"),
        (in_queue("maxapplications: 1\nqueues:\n  - {name: b}"), 6, "must have a bound"),
        (in_queue("limits: [{maxapplications: 1}]"), 4, "for nobody"),
        (in_queue("limits: [{users: [u]}]"), 4, "bounds nothing"),
        (in_queue("limits: [{users: [u], maxresources: {vcore: 0}}]"), 4, "all of it is 0"),
        (in_queue("limits: [{users: ['0u'], maxapplications: 1}]"), 4, "no name of a user"),
        (in_queue("limits: [{users: [u, u], maxapplications: 1}]"), 4, "has a limit in this queue already"),
        (in_queue("limits: [{users: ['*', u], maxapplications: 1}]"), 4, "must be the last"),
        (in_queue("limits: [{groups: ['*'], maxapplications: 1}]"), 4, "write the queue's max"),
        (in_queue("maxapplications: 1\nlimits: [{users: [u], maxapplications: 2}]"), 5, "may run itself"),
        (in_queue("resources: {max: {vcore: 1}}\nlimits: [{users: [u], maxresources: {vcore: 2}}]"), 5, "the max of"),
        (
            "partitions:\n  - limits: [{users: ['*'], maxresources: {vcore: 1}}]\n    queues:\n"
            "      - name: a\n        limits: [{users: [u], maxresources: {vcore: 2}}]",
            5,
            "a limit above leaves to 'u'",
        ),
        (
            "partitions:\n  - limits: [{users: [u], maxapplications: 1}]\n    queues:\n"
            "      - name: a\n        limits: [{users: [u], maxresources: {vcore: 2}}]",
            5,
            "lets 'u' run 1",
        ),
        (
            "partitions:\n  - limits: [{users: [u], maxapplications: 1}]\n    queues:\n"
            "      - {name: root, limits: [{users: [u], maxapplications: 2}]}",
            2,
            "the same thing, but differ",
        ),
        ("partitions:\n  - queues: [{name: a}]\n    nodesortpolicy: {type: spread}", 3, "neither fair nor"),
        ("partitions:\n  - queues: [{name: a}]\n    nodesortpolicy: {resourceweights: {vcore: -1}}", 3, "negative"),
        ("partitions:\n  - queues: [{name: a}]\n    placementrules: [{name: 'my rule'}]", 3, "no name of a rule"),
        ("partitions:\n  - queues: [{name: a}]\n    placementrules: [{name: user, filter: {type: no}}]", 3, "allow"),
        (
            "partitions:\n  - queues: [{name: a}]\n    placementrules: [{name: user, filter: {users: ['a[b']}}]",
            3,
            "expression",
        ),
        ("partitions:\n  - queues: [{name: a}]\n    placementrules: [{name: fixed, value: b}]", 3, "no queue 'root.b'"),
        (
            "partitions:\n  - queues: [{name: a}]\n    placementrules: [{name: fixed, value: a.b, create: true}]",
            3,
            "a leaf",
        ),
        (
            "partitions:\n  - queues: [{name: a, parent: true, queues: [{name: b}]}]\n"
            "    placementrules: [{name: fixed, value: root.a}]",
            3,
            "leaves only",
        ),
        (
            "partitions:\n  - queues: [{name: a}]\n"
            "    placementrules: [{name: user, parent: {name: fixed, value: root.a}}]",
            3,
            "another rule goes on",
        ),
        (
            "partitions:\n  - queues: [{name: a}]\n"
            "    placementrules: [{name: fixed, value: root.a, parent: {name: fixed, value: a}}]",
            3,
            "cannot have a parent",
        ),
    ],
)
def test_refused_whole_with_the_line(text: str, line: int, said: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        read(text)
    assert said in refused.value.text
    assert refused.value.line == line


def test_a_file_has_bounds() -> None:
    bomb = "a: &a [1,1,1,1,1,1,1,1,1,1]\n" + "".join(
        f"{name}: &{name} [{','.join([f'*{before}'] * 10)}]\n" for before, name in zip("abcdef", "bcdefg", strict=True)
    )
    for text in (bomb, "x" * 2_000_000, "[" * 5000):
        with pytest.raises(ConfigurationError, match=r"more than|no YAML"):
            read(text)


def row(path: str, use: Any) -> str:
    if isinstance(use, Ignored):
        return f"| `{path}` | – | {use.why} |"
    return f"| `{path}` | {use.field if use.field == '–' else f'`{use.field}`'} | {use.how} |"


def test_the_page_shows_the_tables() -> None:
    now = page = PAGE.read_text()
    for title, table in (("Queues", TABLE), ("Pods", POD), ("Namespaces", NAMESPACE_TABLE)):
        lines = ["| field | becomes | how |", "|---|---|---|", *(row(path, use) for path, use in table.items())]
        before, _, after = now.partition(f"## {title}\n\n")
        now = f"{before}## {title}\n\n" + "\n".join(lines) + "\n\n" + after.partition("|\n\n")[2]
    if os.environ.get("PHALANX_REWRITE"):
        PAGE.write_text(now)
    assert page == now, "the table has changed: PHALANX_REWRITE=1 .venv/bin/pytest tests/dialects/test_yunikorn.py"


# --- pods -------------------------------------------------------------------------------------------------------------

GROUPS = """[{"name": "driver", "minMember": 1, "minResource": {"cpu": "500m", "memory": "1Gi"}},
             {"Name": "work", "minmember": 3, "minResource": {"cpu": 1}}]"""


def meta(labels: dict[str, str], **annotations: str) -> dict[str, Any]:
    theirs = {f"yunikorn.apache.org/{key.replace('_', '-')}": text for key, text in annotations.items()}
    return {"name": "p", "namespace": "ns", "labels": labels, "annotations": theirs}


def test_the_first_pod_says_what_the_whole_gang_asks_for() -> None:
    found = options_of(
        meta({"applicationId": "app", "queue": "root.a"}, task_groups=GROUPS, task_group_name="driver"), YUNIKORN
    )
    resources = json.loads(found["phalanx.dev/min-resources"])
    assert {key: text for key, text in found.items() if key != "phalanx.dev/min-resources"} == {
        "phalanx.dev/queue": "yunikorn/",
        "yunikorn/queue": ":root.a",
        "phalanx.dev/job": "app",
        "phalanx.dev/role": "driver",
        "phalanx.dev/min-available": "4",
    }
    assert {name: amount(name, text) for name, text in resources.items()} == {"cpu": 3500, "memory": 1 << 30}


def test_which_name_of_an_application_and_which_queue_count() -> None:
    labels = {"yunikorn.apache.org/app-id": "one", "applicationId": "two", "queue": "c"}
    found = options_of(meta(labels, app_id="three", queue="b", task_group_name="g"), YUNIKORN)
    assert (found["phalanx.dev/job"], queue_of(found["phalanx.dev/queue"], found)) == ("one", "b")
    found = options_of(meta({}, task_group_name="g"), YUNIKORN)
    assert (found["phalanx.dev/job"], queue_of(found["phalanx.dev/queue"], found)) == ("yunikorn-ns-autogen", "")
    alone = options_of(meta({"queue": "a"}), YUNIKORN)
    assert "phalanx.dev/job" not in alone
    assert queue_of(alone["phalanx.dev/queue"], alone) == "a"


@pytest.mark.parametrize(
    "groups", ["", "no JSON", "{}", "[{}]", '[{"name": "a", "minMember": 0, "minResource": {"cpu": 1}}]', "[" * 2000]
)
def test_a_pod_without_a_task_group_that_can_be_read_is_no_member_of_a_gang(groups: str) -> None:
    assert options_of(meta({"applicationId": "app"}, task_groups=groups), YUNIKORN) == {
        "phalanx.dev/queue": "yunikorn/",
        "phalanx.dev/job": "application:app",
        "yunikorn/queue": ":",
    }


def test_pods_of_another_scheduler_or_with_a_queue_of_ours_say_nothing() -> None:
    assert options_of(meta({"applicationId": "app"}, task_group_name="g"), "phalanx") == {}
    assert options_of(meta({"phalanx.dev/queue": "default"}, task_group_name="g"), YUNIKORN) == {}


RULES = """
    partitions:
      - placementrules:
          - {name: user, create: true, parent: {name: fixed, value: users}, filter: {type: allow, groups: [staff]}}
          - {name: provided, filter: {type: deny, users: ['^guest']}}
          - {name: tag, value: namespace, create: true, parent: {name: tag, value: namespace.parentqueue}}
          - {name: tag, value: namespace, create: true, parent: {name: fixed, value: spaces}}
        queues:
          - name: root
            queues:
              - {name: users, parent: true, submitacl: '*', queues: [{name: sue}]}
              - {name: open, submitacl: '*'}
              - {name: closed, submitacl: 'kim'}
              - {name: spaces, parent: true, submitacl: '*'}
              - {name: labs, parent: true, submitacl: '*'}
"""


def tree(text: str) -> QueueTree:
    return tree_of(read(dedent(text)).partitions[0].queues or ())


@pytest.mark.parametrize(
    ("application", "queue"),
    [
        (Application(user="sue", groups=("staff",), tags={}), "root.users.sue"),
        (Application(user="kim.lee", groups=("staff",), tags={}), "root.users.kim_dot_lee"),
        (Application(user="ann", queue="open", tags={}), "root.open"),
        (Application(user="ann", queue="Root.Open", tags={}), "root.open"),
        (Application(user="ann", queue="closed", tags={"namespace": "lab"}), "root.spaces.lab"),  # she may not submit
        (Application(user="ann", queue="root.users", tags={"namespace": "lab"}), "root.spaces.lab"),  # no leaf
        (Application(user="guest7", queue="open", tags={"namespace": "a.b"}), "root.spaces.a_dot_b"),
        (Application(user="ann", tags={"namespace": "x", "namespace.parentqueue": "root.labs"}), "root.labs.x"),
        (Application(user="ann", queue="root.nowhere", tags={}), ""),
    ],
)
def test_the_first_rule_that_gives_a_queue_wins(application: Application, queue: str) -> None:
    rules = read(dedent(RULES)).partitions[0].placement_rules
    assert place(rules, application, tree(RULES)).queue == queue


@pytest.mark.parametrize(
    ("application", "said"),
    [
        (Application(user="ann", tags={"namespace": "x", "namespace.parentqueue": "root.open"}), "as a parent: a leaf"),
        (Application(user="k!m", groups=("staff",), tags={}), "'k!m' is no name"),
        (Application(user="k" * 65, groups=("staff",), tags={}), "is no name"),
    ],
)
def test_a_rule_that_can_make_no_queue_refuses_the_application(application: Application, said: str) -> None:
    rules = read(dedent(RULES)).partitions[0].placement_rules
    assert said in place(rules, application, tree(RULES)).fault


def test_no_queue_is_made_below_a_leaf_and_of_many_levels() -> None:
    rule = PlacementRule(name="provided", create=True)
    found = place((rule,), Application(queue="root.open.x", tags={}), tree(RULES))
    assert "'root.open' above it is a leaf" in found.fault
    found = place((rule,), Application(queue="root.labs" + ".c" * 1000, tags={}), tree(RULES))
    assert "more than 20 levels" in found.fault
    assert len(found.fault) < 500


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
    claim = YUNIKORN_DIALECT.claim(defined, said)
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
        claim = YUNIKORN_DIALECT.claim(defined, said)
        assert claim is not None
        assert (claim.blocked is None) == (starts or not groups)


@pytest.mark.parametrize(("queue", "user"), [("x.x." * 50_000, "sue"), ("root.a", "x.x." * 50_000)])
def test_a_reason_shows_the_start_of_a_long_name_only(queue: str, user: str) -> None:
    text = "partitions: [{queues: [{name: root, queues: [{name: a}]}]}]"
    config = {f"{NAMESPACE}/yunikorn-configs": {"data": {"queues.yaml": text}}}
    said = Said(gang="g", namespace="n", queue=QUEUE_PREFIX + queue, options={USER: user})
    claim = YUNIKORN_DIALECT.claim(YUNIKORN_DIALECT.define({CONFIGURATIONS: config}), said)
    assert claim is not None
    assert claim.blocked is not None
    assert "x.x." in claim.blocked.text
    assert len(claim.blocked.text) < 500


def test_without_rules_the_queue_that_is_asked_for_counts_and_then_the_default_one() -> None:
    queues = "{name: a, submitacl: '*'}, {name: default, submitacl: '*'}"
    both, one = (tree(f"partitions: [{{queues: [{each}]}}]") for each in (queues, "{name: a, submitacl: '*'}"))
    assert place((), Application(queue="a", tags={}), both).queue == "root.a"
    assert place((), Application(queue="b", tags={}), both).queue == "root.default"
    assert place((), Application(queue="b", tags={}), one).queue == ""


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
    claim = YUNIKORN_DIALECT.claim(YUNIKORN_DIALECT.define({CONFIGURATIONS: config}), gang)
    assert claim is not None
    assert (claim.blocked is None) == admitted
    if claim.blocked is not None:
        assert f"the user {user!r} may not submit to root.a" in claim.blocked.text


@pytest.mark.parametrize(
    ("user", "groups", "queue", "vcore", "running"),
    [
        ("sue", "dev", "root.a.sue", 4, 2),
        ("kim", "qa,dev", "root.a.dev", 40, 20),
        ("bob", "qa", "root.a.others", None, None),
    ],
)
def test_the_page_gives_named_users_and_groups_limits_of_their_own(
    user: str, groups: str, queue: str, vcore: int | None, running: int | None
) -> None:
    text = PAGE.read_text().split("```yaml\n")[1].split("```")[0]
    defined = YUNIKORN_DIALECT.define(
        {CONFIGURATIONS: {f"{NAMESPACE}/yunikorn-configs": {"data": {"queues.yaml": text}}}}
    )
    options = {USER: user, GROUPS_WORD: groups}
    claim = YUNIKORN_DIALECT.claim(defined, Said(gang="g", namespace="n", queue=QUEUE_PREFIX, options=options))
    assert claim is not None
    assert (claim.queue, claim.blocked) == (QUEUE_PREFIX + queue, None)
    [found] = [one for one in defined.queues if one.name == claim.queue]
    assert [dict(quota.limit) for quota in found.quotas] == ([{"cpu": vcore * 1000}] if vcore else [])
    assert found.total.running == running
    assert found.per_user.running == (1 if user == "bob" else None)
