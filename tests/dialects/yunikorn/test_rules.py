"""`dialects/yunikorn/placement.py`: chooses the queue of an application."""

from __future__ import annotations

from textwrap import dedent

import pytest

from phalanx.dialects.yunikorn.checks import read
from phalanx.dialects.yunikorn.configuration import PlacementRule
from phalanx.dialects.yunikorn.placement import Application, PlacementTree, place, tree_of

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


def tree(text: str) -> PlacementTree:
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
        (
            Application(user="ann", tags={"namespace": "x", "namespace.parentqueue": "root.open"}),
            "as a parent, which is a leaf",
        ),
        (Application(user="k!m", groups=("staff",), tags={}), "'k!m' is not a valid name"),
        (Application(user="k" * 65, groups=("staff",), tags={}), "is not a valid name"),
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


def test_without_rules_the_queue_that_is_asked_for_counts_and_then_the_default_one() -> None:
    queues = "{name: a, submitacl: '*'}, {name: default, submitacl: '*'}"
    both, one = (tree(f"partitions: [{{queues: [{each}]}}]") for each in (queues, "{name: a, submitacl: '*'}"))
    assert place((), Application(queue="a", tags={}), both).queue == "root.a"
    assert place((), Application(queue="b", tags={}), both).queue == "root.default"
    assert place((), Application(queue="b", tags={}), one).queue == ""
