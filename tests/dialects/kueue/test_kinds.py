"""Names that Kueue's queues and flavors have in the queue tree."""

from __future__ import annotations

from phalanx.dialects.kueue import kinds


def test_names_of_the_tree_lead_back_and_kinds_differ() -> None:
    assert kinds.cluster_queue_of(kinds.tree_queue("a")) == "a"
    assert kinds.local_queue_of(kinds.local_queue("ns", "l")) == "ns/l"
    assert kinds.tree_queue("a") != kinds.tree_cohort("a") != "a"
    assert [kinds.cluster_queue_of(name) for name in ("a", kinds.tree_cohort("a"))] == ["", ""]
    assert kinds.local_queue_of(kinds.tree_queue("a")) == ""


def test_a_role_has_a_flavor_of_each_resource_group() -> None:
    assert kinds.flavors_of(kinds.tree_flavor("spot")) == ("spot",)
    assert kinds.flavors_of("") == ()
