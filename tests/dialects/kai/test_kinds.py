"""Names that KAI's Queues and PodGroups have here."""

from __future__ import annotations

from phalanx.dialects.kai import kinds


def test_names_lead_back_and_others_lead_nowhere() -> None:
    assert kinds.queue_of(kinds.tree_queue("team")) == "team"
    assert kinds.queue_of("team") == ""
    assert kinds.pod_group_of(f"ns/{kinds.gang_name('pg')}") == "pg"
    assert [kinds.pod_group_of(gang) for gang in ("ns/pg", "pg", "")] == ["", "", ""]


def test_no_kind_of_owner_is_listed_twice() -> None:
    every = (*kinds.OWNERS, *kinds.ABOVE)
    assert len(set(every)) == len(every)
