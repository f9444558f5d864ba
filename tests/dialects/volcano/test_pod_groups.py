"""What Volcano's PodGroups and pods say, in our words."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.client.kind import NAMESPACES
from phalanx.dialects.frame.dialect import GroupClaim, Said
from phalanx.dialects.schema.fields import Misread
from phalanx.dialects.volcano.definitions.queues import VolcanoDefinitions, define
from phalanx.dialects.volcano.kinds import POD_GROUPS
from phalanx.dialects.volcano.pod_groups import OBJECT, PodGroup, claim, options_of, read_pod_group


def test_a_pod_group() -> None:
    spec = {
        "minMember": 3,
        "minTaskMember": {"ps": 1, "worker": 0},
        "minResources": {"cpu": "3", "memory": "1Gi"},
        "queue": "lab",
        "priorityClassName": "high",
    }
    assert read_pod_group(spec) == PodGroup(
        queue="lab", minimum=3, tasks=(("ps", 1),), whole=(("cpu", 3000), ("memory", 1 << 30)), priority_class="high"
    )


@pytest.mark.parametrize("spec", [{}, {"minMember": 0}, {"minMember": None, "queue": ""}])
def test_one_that_says_nothing_starts_by_itself(spec: Any) -> None:
    assert read_pod_group(spec) == PodGroup()


def test_what_cannot_be_is_said() -> None:
    with pytest.raises(Misread, match=r"spec\.minMember: 'three' is not a whole number"):
        read_pod_group({"minMember": "three"})


def test_tasks_count_only_where_the_minimum_covers_them_all() -> None:
    assert read_pod_group({"minMember": 1, "minTaskMember": {"a": 1, "b": 5}}).tasks == ()
    assert read_pod_group({"minMember": 6, "minTaskMember": {"a": 1, "b": 5}}).tasks == (("a", 1), ("b", 5))


def test_quotas_of_pods_are_no_room() -> None:
    """Volcano's controllers write the names that a ResourceQuota has beside the resources."""
    whole = {"cpu": 1, "count/pods": 2, "requests.cpu": 1, "limits.cpu": 1}
    assert read_pod_group({"minResources": whole}).whole == (("cpu", 1000),)


def test_annotations_count_before_labels() -> None:
    meta = {"annotations": {"scheduling.k8s.io/group-name": "a"}, "labels": {"volcano.sh/preemptable": "true"}}
    found = options_of(meta, "volcano")
    assert (found["phalanx.dev/job"], "phalanx.dev/preemptible" in found) == ("podgroup:a", False)
    assert options_of({"annotations": {"scheduling.volcano.sh/group-name": "b"}}, "volcano")[OBJECT] == "b"


def test_the_pods_of_other_schedulers_say_nothing_of_a_group() -> None:
    meta = {"annotations": {"scheduling.k8s.io/group-name": "a"}}
    assert options_of(meta, "phalanx")
    assert options_of(meta, "koord-scheduler") == options_of({}, "volcano") == {}
    assert options_of({**meta, "labels": {"phalanx.dev/job": "mine"}}, "volcano") == {}


def said(queue: str = "volcano/", group: str = "g", priority: int = 0) -> Said:
    return Said(gang="a/g", namespace="a", queue=queue, options={OBJECT: group} if group else {}, priority=priority)


def test_the_queue_of_a_pod_counts_before_that_of_its_group() -> None:
    group = {"metadata": {}, "spec": {"queue": "lab", "minMember": 2, "priorityClassName": "high"}}
    there, defined = {POD_GROUPS: {"a/g": group}}, VolcanoDefinitions(priorities={"high": 9})
    found = claim(defined, said(), there)
    assert found is not None
    assert (found.queue, found.priority, found.group) == ("lab", 9, GroupClaim(minimum=2, by_priority=True))
    for queue, expected in (("volcano/other", "other"), ("ours", "ours")):
        found = claim(defined, said(queue, priority=12), there)
        assert found is not None
        assert (found.queue, found.priority) == (
            expected,
            9,
        )  # the priority of the group's class
    missing = claim(defined, said(), {})
    assert missing is not None
    assert missing.blocked is not None


def test_a_pod_that_is_not_preemptable_spares_its_group() -> None:
    meta = {"annotations": {"scheduling.k8s.io/group-name": "g", "volcano.sh/preemptable": "false"}}
    options = dict(options_of(meta, "volcano"))
    group = {POD_GROUPS: {"a/g": {"metadata": {}, "spec": {}}}}
    for with_words, expected in ((options, "false"), ({**options, "phalanx.dev/preemptible": "true"}, None)):
        shown = Said(gang="a/g", namespace="a", queue="volcano/", options=with_words)
        found = claim(VolcanoDefinitions(), shown, group)
        assert found is not None
        assert found.options.get("phalanx.dev/preemptible") == expected


def test_a_gang_of_others_is_counted_in_the_queue_that_it_names() -> None:
    defined = VolcanoDefinitions(names=frozenset({"lab"}))
    found = claim(defined, said("lab", group=""), {})
    assert found is not None
    assert (found.queue, found.group) == ("lab", None)
    assert claim(defined, said("other", group=""), {}) is None


@pytest.mark.parametrize(("queue", "counts"), [("", "lab"), ("default", "lab"), ("other", "other")])
def test_a_namespace_redirects_groups_of_the_default_queue(queue: str, counts: str) -> None:
    annotations = {"scheduling.volcano.sh/queue-name": "lab"}
    defined = define({NAMESPACES: {"ns": {"metadata": {"name": "ns", "annotations": annotations}}}})
    options = options_of({"annotations": {"scheduling.k8s.io/group-name": "g"}}, "volcano")
    for namespace, expected in (("ns", counts), ("beside", "other" if queue == "other" else "volcano/default")):
        said = Said(gang="x", namespace=namespace, queue=options["phalanx.dev/queue"], options=options)
        found = claim(defined, said, {POD_GROUPS: {f"{namespace}/g": {"spec": {"queue": queue}}}})
        assert found is not None
        assert found.queue == expected
