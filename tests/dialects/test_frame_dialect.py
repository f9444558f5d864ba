"""`dialects/frame/dialect.py`: the defaults of a dialect change nothing, and each enabled dialect is sound."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import pytest

from phalanx.dialects.enabled import DIALECTS
from phalanx.dialects.frame.dialect import (
    Claim,
    Definitions,
    Dialect,
    GroupClaim,
    PodUpdate,
    Said,
    no_answers,
    no_pod_group,
    of_pods,
)
from phalanx.model.pod import amounts
from phalanx.model.reason import ReasonCode

POD: Any = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {}}


def test_definitions_without_content_change_no_node_and_no_pod() -> None:
    found = Definitions()
    assert not found.about_pods
    assert isinstance(found.topology_key(), Hashable)
    assert found.options_key() == found.topology_key() == ()
    for node_part in (found.node_zones("n"), found.node_devices("n"), found.devices_given(POD)):
        assert node_part == ()
    for mapping in (found.node_labels("n", {"a": "b"}), found.pod_options(POD), found.at_binding(POD, "n", "", ())):
        assert mapping == {}
    assert (found.part_use(POD), found.device_ask(POD)) == (None, None)


def test_options_of_pods_leave_other_objects_alone() -> None:
    options = of_pods(lambda meta, scheduler: {"scheduler": scheduler, **meta})
    assert options("Pod", {"name": "p"}, "volcano") == {"scheduler": "volcano", "name": "p"}
    assert options("Pod", {}) == {"scheduler": ""}
    assert options("Job", {"name": "p"}, "volcano") == {}


def test_the_resources_of_a_gang_are_those_of_all_its_pods() -> None:
    requests = frozenset({amounts({"cpu": 1}), amounts({"cpu": 2, "gpu": 1})})
    said = Said(gang="g", namespace="ns", queue="q", options={}, requests=requests)
    assert said.asks == {"cpu", "gpu"}
    assert Said(gang="g", namespace="ns", queue="q", options={}).asks == frozenset()


def test_a_missing_pod_group_says_what_to_create() -> None:
    found = no_pod_group("mine")
    assert found.code is ReasonCode.WAITING_FOR_MEMBERS
    assert found.text == "the PodGroup mine of its pods does not exist yet: create it"


def test_a_claim_with_only_a_queue_changes_nothing_else() -> None:
    one, other = Claim(queue="q"), Claim(queue="q")
    assert one == other
    assert (one.priority, one.blocked, one.gate, one.group, one.clusters, one.drained) == (None,) * 5 + (False,)
    for mapping in (one.options, one.roles, one.updates, GroupClaim().of_role, PodUpdate().labels):
        assert mapping == {}
    assert one.options is not other.options  # no two claims share a mapping


def test_a_dialect_that_answers_nothing() -> None:
    own: Any = Dialect(name="own", definition_kinds=(), define=lambda objects: Definitions(), claim=lambda *_: None)
    assert list(no_answers("anything", 1)) == []
    assert list(own.answer()) == list(own.statuses()) == list(own.notes("Job", {})) == []
    assert (own.gang_of({}), own.options_of("Job", {})) == ("", {})
    again: Any = Dialect(name="own", definition_kinds=(), define=own.define, claim=own.claim)
    assert len({own, again}) == 2  # dialects are keys by their identity


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=lambda dialect: dialect.name)
def test_an_enabled_dialect_reads_an_empty_cluster(dialect: Dialect[Any]) -> None:
    assert DIALECTS[dialect.name] is dialect
    found = dialect.define({kind: {} for kind in dialect.definition_kinds})
    assert isinstance(found, Definitions)
    assert found.fault == ""
    assert isinstance(found.topology_key(), Hashable)
    assert isinstance(found.options_key(), Hashable)
    assert set(dialect.by_status) <= set(dialect.definition_kinds)
    assert dialect.options_of("Job", {"name": "j", "namespace": "ns"}, "") == {}


def test_no_two_dialects_bind_the_pods_of_one_scheduler() -> None:
    names = [name for dialect in DIALECTS.values() for name in dialect.scheduler_names]
    assert len(names) == len(set(names))
