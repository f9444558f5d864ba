"""ElasticQuotas as queues of our tree."""

from __future__ import annotations

from typing import Any

from phalanx.dialects.frame.dialect import Object, Said
from phalanx.dialects.frame.pod_requests import pod_requests
from phalanx.dialects.kube_scheduler.scheduler_plugins import kinds
from phalanx.dialects.kube_scheduler.scheduler_plugins.dialect import SCHEDULER_PLUGINS
from phalanx.dialects.kube_scheduler.scheduler_plugins.quotas import QuotaDefinitions
from phalanx.model.queue import Quota, ReclaimWithinCohort, WithinQueue


def defined(**specs: Object) -> QuotaDefinitions:
    """`namespace__name=spec`."""
    found = {key.replace("__", "/"): {"metadata": {}, "spec": spec} for key, spec in specs.items()}
    return SCHEDULER_PLUGINS.define({kinds.ELASTIC_QUOTAS: found})


def quota(defined: QuotaDefinitions, name: str) -> Quota:
    return next(queue for queue in defined.queues if queue.name == name).quotas[0]


def test_min_is_guaranteed_max_is_the_limit_and_the_sum_of_min_is_all_there_is() -> None:
    found = defined(a__q={"min": {"cpu": "4", "memory": "1Gi"}, "max": {"cpu": "6"}}, b__q={"min": {"cpu": 2}})
    assert quota(found, "elasticquota/a") == Quota(
        guaranteed=(("cpu", 4000), ("memory", 0)), limit=(("cpu", 6000), ("ephemeral-storage", 0), ("memory", 0))
    )
    assert quota(found, "elasticquota/b") == Quota(guaranteed=(("cpu", 2000),))  # no max: no limit of its own
    assert quota(found, kinds.TREE).limit == (("cpu", 6000), ("ephemeral-storage", 0), ("memory", 1 << 30))
    child = next(queue for queue in found.queues if queue.name == "elasticquota/a")
    assert (child.parent, child.preemption.within, child.preemption.reclaim) == (
        kinds.TREE,
        WithinQueue.LOWER,
        ReclaimWithinCohort.ANY,
    )


def test_of_two_quotas_in_a_namespace_the_first_counts() -> None:
    found = defined(a__second={"min": {"cpu": 2}}, a__first={"min": {"cpu": 1}})
    assert found.quotas == {"a": "first"}
    assert quota(found, "elasticquota/a").guaranteed == (("cpu", 1000),)


def test_what_cannot_be_read_counts_as_nothing() -> None:
    found = defined(a__q={"min": {"cpu": "much", "memory": -1}, "max": ["cpu"]})
    assert quota(found, "elasticquota/a") == Quota(guaranteed=(("memory", 0),))


def test_without_quotas_there_is_no_tree_and_a_pod_is_in_the_default_queue() -> None:
    found = defined()
    assert found.queues == ()
    said = Said(gang="a/pod:p", namespace="a", queue="elasticquota/a", options={})
    claim = SCHEDULER_PLUGINS.claim(found, said, {})
    assert claim is not None
    assert (claim.queue, claim.silent) == ("", True)
    assert (
        SCHEDULER_PLUGINS.claim(found, Said(gang="a/p", namespace="a", queue="clusterqueue/x", options={}), {}) is None
    )


def test_whose_pods_are_of_a_quota_or_a_group() -> None:
    def words(scheduler: str, **labels: str) -> Any:
        return SCHEDULER_PLUGINS.options_of("Pod", {"namespace": "a", "labels": labels}, scheduler)

    assert words("phalanx") == {}
    assert words("volcano", **{"scheduling.x-k8s.io/pod-group": "g"}) == {}
    assert words("default-scheduler") == {"phalanx.dev/queue": "elasticquota/a"}
    assert words("phalanx", **{"scheduling.x-k8s.io/pod-group": "g"})["phalanx.dev/job"] == "scheduling.x-k8s.io:g"
    assert words("phalanx", **{"scheduling.x-k8s.io/pod-group": "g", "phalanx.dev/job": "ours"}) == {}


def test_what_a_pod_asks_is_counted_as_kube_scheduler_does() -> None:
    def container(cpu: str, **more: str) -> Object:
        return {"resources": {"requests": {"cpu": cpu}}, **more}

    spec = {
        "containers": [container("1"), {"resources": {"limits": {"cpu": "500m", "nvidia.com/gpu": 1}}}],
        "initContainers": [container("100m", restartPolicy="Always"), container("3"), container("200m")],
        "overhead": {"cpu": "50m"},
    }
    assert pod_requests(spec) == {"cpu": 3150, "nvidia.com/gpu": 1}
    assert pod_requests({"containers": [{}]}) == {}
