"""`dialects/job_kinds/appwrapper/quota_trees.py`: translates MCAD's quota trees (QuotaSubtree) into Phalanx Queues."""

from __future__ import annotations

from phalanx.dialects.frame.dialect import Claim, Object, Said
from phalanx.dialects.job_kinds.appwrapper import kinds, quota_trees
from phalanx.dialects.job_kinds.appwrapper.job_form import APP_WRAPPER
from phalanx.model.queue import Quota
from tests.dialects.job_kinds.appwrapper.wrappers import job, wrapper


def subtree(tree: str, parent: str, **nodes: Object) -> Object:
    children = [{"name": name, "quotas": quotas} for name, quotas in nodes.items()]
    spec = {"children": children, **({"parent": parent} if parent else {})}
    return {"metadata": {"labels": {"tree": tree}}, "spec": spec}


def test_trees_of_quotas_are_queues_and_labels_say_which() -> None:
    soft, hard = {"requests": {"cpu": "1"}}, {"requests": {"cpu": "2"}, "hardLimit": True}
    objects = {
        kinds.QUOTA_SUBTREES: {
            "kube-system/root": subtree("team", "", root={"requests": {"cpu": "4"}}),
            "kube-system/below": subtree("team", "root", gold=soft, bronze=hard, default={"requests": {"cpu": 0}}),
        },
        kinds.IBM_QUOTA_SUBTREES: {"kube-system/other": subtree("use", "", prod=soft)},
    }
    defined = quota_trees.define(objects)
    queues = {queue.name: queue for queue in defined.queues}
    assert queues["quotasubtree/team/gold"].parent == "quotasubtree/team/root"
    assert queues["quotasubtree/team/gold"].quotas == (Quota(guaranteed=(("cpu", 1000),)),)
    assert queues["quotasubtree/team/bronze"].quotas[0].limit == (("cpu", 2000),)
    assert queues["quotasubtree/team/root"].quotas[0].limit == (("cpu", 4000),), "a root has nobody to borrow from"

    def of(**labels: str) -> Claim | None:
        view = APP_WRAPPER.view(wrapper({"generictemplate": job()}, labels=labels), "0-0")
        queue = view["metadata"]["labels"]["phalanx.dev/queue"]
        return quota_trees.claim(defined, Said(gang="g", namespace="space", queue=queue, options={}))

    assert of(team="gold") == Claim(queue="quotasubtree/team/gold")
    assert of(use="prod", app="x") == Claim(queue="quotasubtree/use/prod")
    assert of() == Claim(queue="quotasubtree/team/default")
    assert quota_trees.claim(defined, Said(gang="g", namespace="s", queue="clusterqueue/x", options={})) is None
    nobody = Said(gang="g", namespace="s", queue=kinds.labels_queue({"team": "gold"}), options={})
    assert quota_trees.claim(quota_trees.define({}), nobody) == Claim(queue=""), "without trees: the default queue"
