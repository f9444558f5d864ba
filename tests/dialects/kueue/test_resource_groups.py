"""Several resource groups in one ClusterQueue: a role is given one flavor of each, by Kueue's own examples."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
import yaml

from phalanx.core.decide import decide
from phalanx.core.fold.fold import fold, fold_plan
from phalanx.dialects.kueue import kinds
from phalanx.dialects.kueue.tree.definitions import flavor_of
from phalanx.model.event import FlavorSeen, NodeSeen, QueueSeen, Submitted
from phalanx.model.plan import Start
from phalanx.model.policy import Policy
from phalanx.model.queue import Quota
from phalanx.state.cluster import Cluster
from tests.core.builders import job, node, role
from tests.dialects.kueue.written import cluster_queue, defined, group, named

EXAMPLES = Path(__file__).parent / "examples"
GI = 2**30
QUOTAS = "doc-tasks__manage__administer_cluster_quotas"

# The requests of jobs with one pod, in order, and the assigned flavors of each; none: it waits.
ARCHITECTURES = (
    ({"cpu": 8000, "memory": GI}, "x86 default-flavor"),
    ({"cpu": 2000, "memory": GI}, "arm default-flavor"),
    ({"cpu": 1000}, "x86"),
    ({"memory": 82 * GI}, "default-flavor"),
    ({"cpu": 1000, "memory": GI}, ""),
)
TEAM_A = (
    ({"cpu": 9000, "memory": 36 * GI}, "arm default-flavor"),
    ({"cpu": 1000}, ""),
)
TEAM_B = (
    ({"cpu": 12_000, "memory": 47 * GI}, "arm default-flavor"),
    ({"memory": 2 * GI}, ""),
    ({"memory": GI}, "default-flavor"),
)
LICENCES = (
    ({"cpu": 9000, "bar.com/license": 6}, "spot pool1"),
    ({"cpu": 1000, "bar.com/license": 6}, "on-demand pool2"),
    ({"bar.com/license": 4}, "pool1"),
    ({"foo.com/gpu": 60}, "on-demand"),
    ({"foo.com/gpu": 50, "memory": GI, "bar.com/license": 4}, "spot pool2"),
)


def decided(book: Cluster) -> list[Start]:
    plan = decide(book, Policy(), 0.0)
    fold_plan(book, plan)
    return [each for each in plan.actions if isinstance(each, Start)]


@pytest.mark.parametrize(
    ("file", "asked"),
    [
        (f"{QUOTAS}-l180", ARCHITECTURES),
        (f"v014-{QUOTAS}-l180", ARCHITECTURES),
        (f"{QUOTAS}-l291", TEAM_A),
        (f"v014-{QUOTAS}-l291", TEAM_A),
        (f"{QUOTAS}-l320", TEAM_B),
        ("v014-doc-concepts__cluster_queue-l95", LICENCES),
    ],
)
def test_examples_of_kueue(file: str, asked: tuple[tuple[dict[str, int], str], ...]) -> None:
    (obj,) = yaml.safe_load_all((EXAMPLES / f"{file}.yaml").read_text())
    book = Cluster()
    groups = [[each["name"] for each in group["flavors"]] for group in obj["spec"]["resourceGroups"]]
    flavors = [
        named(name, spec={"nodeLabels": {f"group-{at}": name}}) for at, group in enumerate(groups) for name in group
    ]
    found = defined(flavors=(), resource_flavors=flavors, cluster_queues=[obj])
    fold(book, [FlavorSeen(each) for each in found.flavors])
    fold(book, [QueueSeen(each) for each in found.queues])
    room = {"cpu": 100_000, "memory": 500 * GI, "foo.com/gpu": 500, "bar.com/license": 500}
    for names in product(*groups):  # a node for each way to give flavors
        labels = {f"group-{at}": name for at, name in enumerate(names)}
        fold(book, [NodeSeen(node("-".join(names), labels=labels, **room))])
    given = []
    for at, (asks, _) in enumerate(asked):
        fold(book, [Submitted(job(f"{at}", role(**asks), queue=kinds.tree_queue(obj["metadata"]["name"]), at=at))])
        starts = decided(book)
        flavors_of_role = next((start.flavors[0] for start in starts if start.job == f"{at}"), "")
        given.append(" ".join(kinds.flavors_of(flavors_of_role)))
    assert given == [flavors for _, flavors in asked]


def test_a_cluster_queue_has_a_quota_for_each_flavor_of_each_group() -> None:
    groups = (group(x={"cpu": 4}, y={"cpu": 1}), group(gpu={"nvidia.com/gpu": 2}))
    found = defined(flavors=("x", "y", "gpu"), cluster_queues=[cluster_queue("a", *groups, cohortName="all")])
    queues = {each.name: each.quotas for each in found.queues}
    assert queues["clusterqueue/a"] == (
        Quota(flavor="resourceflavor/x", group="0", guaranteed=(("cpu", 4000),)),
        Quota(flavor="resourceflavor/y", group="0", guaranteed=(("cpu", 1000),)),
        Quota(flavor="resourceflavor/gpu", group="1", guaranteed=(("nvidia.com/gpu", 2),)),
    )
    assert [each.flavor for each in queues["cohort/all"]] == [each.flavor for each in queues["clusterqueue/a"]]
    given = "resourceflavor/x+resourceflavor/gpu"
    known = found.cluster_queues["a"]
    assert [flavor_of(known, given, name) for name in ("cpu", "nvidia.com/gpu")] == ["x", "gpu"]


def test_queues_of_one_cohort_share_a_flavor_that_they_group_otherwise() -> None:
    together = group(a={"cpu": 4, "nvidia.com/gpu": 4})
    apart = (group(a={"cpu": 0}), group(b={"nvidia.com/gpu": 4}))
    queues = [cluster_queue("one", together, cohortName="all"), cluster_queue("two", *apart, cohortName="all")]
    found = defined(flavors=("a", "b"), cluster_queues=queues)
    book = Cluster()
    fold(book, [*map(FlavorSeen, found.flavors), *map(QueueSeen, found.queues)])
    fold(book, [NodeSeen(node("n", cpu=8000, **{"nvidia.com/gpu": 8}))])
    starts: list[Start] = []
    for name, queue in (("x", "two"), ("y", "one")):
        fold(book, [Submitted(job(name, role(**{"cpu": 2000, "nvidia.com/gpu": 4}), queue=kinds.tree_queue(queue)))])
        starts += decided(book)
    assert [start.job for start in starts] == ["x", "y"], "the gpus of x are those of b, its cpus are borrowed of a"
    used = book.tree.branches[kinds.tree_cohort("all")].account.total
    flavor = kinds.tree_flavor
    assert (used[flavor("a"), "nvidia.com/gpu"], used[flavor("b"), "nvidia.com/gpu"]) == (4, 4)
    assert (used[flavor("a"), "cpu"], used.get((flavor("b"), "cpu"))) == (4000, None)
