"""The scheduler's ConfigMap: the effect of its actions and plugins on Queues, and the notes about each setting."""

from __future__ import annotations

import pytest
import yaml

from phalanx.dialects.frame.dialect import Object
from phalanx.dialects.volcano.definitions.configuration import (
    CONFIGURATIONS,
    NONE,
    VolcanoConfigurationError,
    configuration,
    read_configuration,
    settings,
)
from phalanx.dialects.volcano.definitions.queues import define, read_queue
from phalanx.dialects.volcano.dialect import VOLCANO
from phalanx.dialects.volcano.kinds import QUEUES
from phalanx.dialects.volcano.settings import SETTINGS, use_of
from phalanx.model.queue import QueueOrder, Quota, ReclaimFloor, ReclaimWithinCohort, WithinQueue
from tests.dialects.manifests import objects
from tests.dialects.volcano.test_examples import EXAMPLES

DEFAULT = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang, enablePreemptable: false}, {name: conformance}]
- plugins: [{name: overcommit}, {name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}]
"""


def config_map(text: str) -> Object:
    return {"metadata": {"name": "c", "uid": "u"}, "data": {"volcano-scheduler.conf": text}}


def test_without_one_queues_share_by_weight_and_reclaim_what_they_deserve() -> None:
    assert configuration({"volcano-system/other": {"data": {"x": "y"}}}) is NONE
    queue = read_queue("q", {"deserved": {"cpu": 4}})
    assert (queue.parent, queue.order, queue.preemption.within) == ("root", QueueOrder.PRIORITY, WithinQueue.NEVER)
    assert queue.preemption.reclaim is ReclaimWithinCohort.ANY


def test_volcanos_default_preempts_and_reclaims_nothing_and_shares_by_weight() -> None:
    how = read_configuration(DEFAULT)
    queue = read_queue("q", {"deserved": {"cpu": 4}, "guarantee": {"resource": {"cpu": 1}}}, how=how)
    assert (queue.preemption.within, queue.preemption.reclaim) == (WithinQueue.NEVER, ReclaimWithinCohort.NEVER)
    assert queue.quotas == (Quota(guaranteed=(("cpu", 1000),), lend=(("cpu", 0),)),)
    assert queue.parent == "root"


def test_actions_say_who_gives_way() -> None:
    how = read_configuration(DEFAULT.replace("backfill", "preempt, gangreclaim"))
    found = read_queue("q", {}, how=how).preemption
    assert (found.within, found.reclaim) == (WithinQueue.LOWER, ReclaimWithinCohort.ANY)
    assert found.down_to is ReclaimFloor.FAIR_SHARE
    how = read_configuration(DEFAULT.replace("backfill", "reclaim").replace("proportion", "capacity"))
    owed, nothing = read_queue("q", {"deserved": {"cpu": 4}}, how=how), read_queue("q", {}, how=how)
    assert (owed.preemption.reclaim, owed.preemption.down_to) == (ReclaimWithinCohort.ANY, ReclaimFloor.GUARANTEE)
    assert nothing.preemption.reclaim is ReclaimWithinCohort.NEVER


def test_inner_queues_share_and_without_priority_jobs_come_by_age() -> None:
    queues = {
        name: {"metadata": {"name": name}, "spec": spec} for name, spec in {"lab": {}, "a": {"parent": "lab"}}.items()
    }
    found = define({QUEUES: queues, CONFIGURATIONS: {"volcano-system/c": config_map(DEFAULT)}}).queues
    assert [(queue.name, queue.order) for queue in found] == [
        ("lab", QueueOrder.TIERED),
        ("a", QueueOrder.PRIORITY),
        ("root", QueueOrder.TIERED),
    ]
    how = read_configuration('actions: "allocate"\ntiers: [{plugins: [{name: gang}]}]')
    assert read_queue("q", {}, how=how).order is QueueOrder.FIFO


@pytest.mark.parametrize("text", ["- 1", "tiers: 1", "tiers: [{plugins: {a: b}}]", "{", "x" * (1 << 21)])
def test_what_cannot_be_read_counts_as_absent_and_is_said(text: str) -> None:
    with pytest.raises(VolcanoConfigurationError):
        read_configuration(text)
    assert configuration({"volcano-system/c": config_map(text)}) is NONE
    (said,) = VOLCANO.notes("ConfigMap", config_map(text))
    assert said.endswith("the configuration is ignored")


def test_what_has_no_effect_is_said_of_the_config_map() -> None:
    text = DEFAULT + "- plugins: [{name: binpack, arguments: {binpack.weight: 10}}, {name: odd}]\n"
    said = list(VOLCANO.notes("ConfigMap", config_map(text)))
    assert [one.partition(" has no effect")[0] for one in said] == [
        "the argument gang.enablePreemptable",
        "the plugin overcommit",
        "the plugin nodeorder",
        "the argument binpack.weight",
        "the plugin odd is unknown to Phalanx, and",
    ]


@pytest.mark.slow
def test_every_setting_of_upstreams_manifests_is_known() -> None:
    """The configurations among upstream's own samples and documents; one has a plugin of its reader's own."""
    found = [obj for file in EXAMPLES for obj in objects(file) if obj.get("kind") == "ConfigMap"]
    texts = [obj["data"]["volcano-scheduler.conf"] for obj in found if "volcano-scheduler.conf" in obj.get("data", {})]
    all_of = [one for text in texts for one in settings(read_configuration(text))]
    unknown = {one.name for one in all_of if use_of(one) is None}
    assert len(all_of) > 40
    assert unknown <= {"magic"}, unknown


def test_every_plugin_and_action_of_upstream_has_a_row() -> None:
    actions = "enqueue allocate backfill preempt reclaim shuffle gangpreempt gangreclaim"
    plugins = (
        "priority gang conformance drf proportion capacity predicates nodeorder binpack overcommit sla tdm cdp "
        "task-topology numa-aware nodegroup network-topology-aware usage rescheduling pdb resourcequota deviceshare "
        "resource-strategy-fit extender"
    )
    wanted = {f"action {one}" for one in actions.split()} | {f"plugin {one}" for one in plugins.split()}
    assert wanted == {row for row in SETTINGS if not row.startswith("argument")}
    assert yaml.safe_load(DEFAULT)["actions"].split(", ")[0] in actions
