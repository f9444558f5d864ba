"""A branch takes over the settings of the queues above it, and knows its relation to other branches."""

from __future__ import annotations

from phalanx.model.queue import Limits, Queue, QueueOrder, QueueState, Quota
from phalanx.state.queues.tree import QueueTree


def tree_of(*queues: Queue) -> QueueTree:
    tree = QueueTree()
    tree.build({queue.name: queue for queue in queues}, ("a100",))
    return tree


def test_a_branch_has_the_settings_of_the_queues_above_it() -> None:
    closed = Queue(name="up", state=QueueState.CLOSED, strict=True, order=QueueOrder.MULTIFACTOR)
    tree = tree_of(
        Queue(name="top", per_user=Limits(running=2), quotas=(Quota(flavor="a100", guaranteed=(("cpu", 8),)),)),
        Queue(name="up", parent="top", state=closed.state, strict=True, order=closed.order),
        Queue(name="q", parent="up", per_group=Limits(wall_s=60.0, submitted=3)),
    )
    branch = tree.branch("q")
    assert [each.name for each in branch.path] == ["q", "up", "top", ""]
    assert [queue.name for queue in branch.rules.states] == ["up"]
    assert branch.strict is tree.branch("up")
    assert branch.rules.by_factors
    assert [group.flavors for group in branch.rules.flavors] == [("a100",)]
    assert (branch.rules.limits.users, branch.rules.limits.by_user, branch.rules.limits.by_group) == (
        False,
        True,
        False,
    )
    assert (branch.rules.limits.submissions, branch.rules.limits.longest_s) == (True, 60.0)


def test_a_deleted_queue_has_the_branch_of_the_root() -> None:
    tree = tree_of(Queue(name="q"))
    assert tree.branch("gone") is tree.root


def test_the_relation_of_two_queues_is_told_below_the_branch_that_contains_both() -> None:
    guaranteed = (Quota(guaranteed=(("cpu", 4),)),)
    tree = tree_of(
        Queue(name="a"),
        Queue(name="a1", parent="a", quotas=guaranteed),
        Queue(name="b"),
        Queue(name="b1", parent="b"),
        Queue(name="b2", parent="b1"),
    )
    relation = tree.branch("a1").relation_to(tree.branch("b2"))
    assert relation.ours is tree.branch("a")
    assert relation.theirs is tree.branch("b")
    assert [branch.name for branch in relation.way] == ["b2", "b1", "b"]
    assert relation.named == {("", "cpu")}, "the guarantee of a is that of its child"
    assert tree.branch("b").relation_to(tree.branch("b2")).ours is None, "the preemptor's queue contains the other"


def test_a_queue_whose_parent_is_missing_has_a_fault_and_so_have_those_below() -> None:
    tree = tree_of(Queue(name="q", parent="gone"), Queue(name="below", parent="q"))
    assert tree.branch("q").fault == tree.branch("below").fault == "the parent 'gone' of queue 'q' does not exist"
