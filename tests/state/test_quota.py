"""The amounts of a queue's quota follow from what the queue states and from its children."""

from __future__ import annotations

from phalanx.model.queue import Limits, Queue, Quota
from phalanx.state.queues.quota import BranchQuota, child_errors

CPU = ("", "cpu")


def quota(*, guaranteed: int, lend: int | None = None, flavor: str = "") -> Queue:
    lends = () if lend is None else (("cpu", lend),)
    return Queue(name="q", quotas=(Quota(flavor=flavor, guaranteed=(("cpu", guaranteed),), lend=lends),))


def test_a_queue_keeps_its_guarantee_less_what_it_lends() -> None:
    assert BranchQuota(quota(guaranteed=8, lend=3), {}).kept == {CPU: 5}
    assert BranchQuota(quota(guaranteed=8), {}).kept == {}, "it lends everything"


def test_a_guarantee_that_is_not_stated_is_the_sum_of_the_children() -> None:
    children = {name: BranchQuota(quota(guaranteed=amount), {}) for name, amount in (("a", 3), ("b", 4))}
    above = BranchQuota(Queue(name="up"), children)
    assert (above.guaranteed, above.contested, above.stated) == ({CPU: 7}, {CPU}, set())


def test_a_guarantee_of_all_nodes_is_the_sum_over_the_flavors() -> None:
    assert BranchQuota(quota(guaranteed=4, flavor="a100"), {}).guaranteed == {("a100", "cpu"): 4, CPU: 4}


def test_the_lower_of_two_limits_counts() -> None:
    queue = Queue(name="q", total=Limits(resources=(("cpu", 5),)), quotas=(Quota(limit=(("cpu", 9),)),))
    assert BranchQuota(queue, {}).limit == {CPU: 5}


def test_an_error_names_the_children_that_are_guaranteed_too_much() -> None:
    children = {name: BranchQuota(quota(guaranteed=amount), {}) for name, amount in (("a", 3000), ("b", 4000))}
    above = BranchQuota(quota(guaranteed=6000), children)
    assert list(child_errors("up", above, children)) == [
        "queue 'up' is guaranteed 6 cpu, but its children are guaranteed 7 (a 3, b 4)"
    ]
    assert list(child_errors("up", BranchQuota(quota(guaranteed=7000), children), children)) == []
