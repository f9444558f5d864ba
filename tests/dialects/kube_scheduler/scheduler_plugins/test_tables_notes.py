"""Settings without an effect are reported on their object."""

from __future__ import annotations

from phalanx.dialects.kube_scheduler.scheduler_plugins.dialect import SCHEDULER_PLUGINS


def test_what_has_no_effect_is_said_of_the_object() -> None:
    group = {"metadata": {}, "spec": {"minMember": 2, "minResources": {"cpu": "1"}, "odd": 1}}
    assert list(SCHEDULER_PLUGINS.notes("PodGroup", group)) == [
        "spec.odd is unknown to Phalanx, and has no effect",
    ]
    (said,) = SCHEDULER_PLUGINS.notes("ElasticQuota", {"metadata": {}, "spec": {"max": {"cpu": 1}}})
    assert said.startswith("spec.max does not name memory, so the limit is 0")
    (said,) = SCHEDULER_PLUGINS.notes("NodeResourceTopology", {"metadata": {}, "zones": []})
    assert said.startswith("it has no effect: Phalanx reads the NUMA zones of a node")
    pod = {"metadata": {"labels": {"appgroup.diktyo.x-k8s.io": "a", "app": "b"}}}
    assert [text.partition(":")[0] for text in SCHEDULER_PLUGINS.notes("Pod", pod)] == [
        "appgroup.diktyo.x-k8s.io has no effect"
    ]
