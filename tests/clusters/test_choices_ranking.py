"""The order of the clusters for a job: expected start, data and price; and what the user is told about it."""

from __future__ import annotations

from phalanx.clusters.choices import ClusterCandidate, rank
from phalanx.clusters.question import ClusterOffer, StartOutlook
from phalanx.kube.gang.spec.elsewhere import ClusterChoice
from phalanx.kube.read.labels import DATA, PREFERRED_DATA
from phalanx.model.reason import ReasonCode
from tests.clusters.sought import NOW_S, asking, candidates, sought


def test_the_earlier_start_comes_first_then_the_data_then_the_price() -> None:
    late = StartOutlook(NOW_S + 200.0, "Reserved", "later")
    one = [
        ClusterCandidate(name="late", offer=ClusterOffer(data=frozenset({"x", "y"})), outlook=late),
        ClusterCandidate(
            name="dear", offer=ClusterOffer(prices={"cpu": 2.0}, data=frozenset({"x"})), outlook=StartOutlook(NOW_S)
        ),
        ClusterCandidate(name="cheap", offer=ClusterOffer(prices={"cpu": 1.0}, data=frozenset({"x"}))),
        ClusterCandidate(name="bare", offer=ClusterOffer()),
    ]
    found = rank(asking(PREFERRED_DATA, "x,y"), one, NOW_S)
    assert found.clusters is None
    assert dict(found.ranks) == {"cheap": 0, "dear": 1, "bare": 2, "late": 3}
    assert list(found.facts) == ["cheap", "dear", "bare", "late"]


def test_equal_clusters_have_no_ranks_so_the_core_takes_the_tightest() -> None:
    assert rank(sought(), candidates(a=None, b=StartOutlook(NOW_S + 30.0, "Reserved", "soon")), NOW_S).ranks == ()


def test_a_cluster_whose_queue_would_hold_the_job_is_not_possible_and_a_full_one_is() -> None:
    far = NOW_S + 3600.0
    said = candidates(
        quota=StartOutlook(far, "QueueQuota", "in 1 h"),
        full=StartOutlook(far, "NoRoom", "in 1 h"),
        none=StartOutlook(float("inf"), "QueueUnknown", "start not known", never=True),
        free=None,
    )
    found = rank(sought(), said, NOW_S)
    assert found.clusters == ("full", "free")
    assert found.blocked is None
    found = rank(sought(), [one for one in said if one.name in ("quota", "none")], NOW_S)
    assert found.blocked is not None
    assert found.blocked.code is ReasonCode.BACKOFF
    assert "quota: in 1 h" in found.blocked.text
    found = rank(sought(), [one for one in said if one.name == "none"], NOW_S)
    assert found.blocked is not None
    assert found.blocked.code is ReasonCode.NO_NODE_MATCHES


def test_required_data_excludes_a_cluster_and_a_bad_name_is_said() -> None:
    one = [
        ClusterCandidate(name="a", offer=ClusterOffer(data=frozenset({"x"}))),
        ClusterCandidate(name="b", offer=ClusterOffer()),
    ]
    assert rank(asking(DATA, "x"), one, NOW_S).clusters == ("a",)
    blocked = rank(asking(DATA, "x,z"), one, NOW_S).blocked
    assert blocked is not None
    assert "a: lacks the data z" in blocked.text
    bad = rank(asking(DATA, "no name"), one, NOW_S).blocked
    assert bad is not None
    assert bad.code is ReasonCode.INVALID


def test_the_explanation_names_each_other_cluster_and_is_bounded() -> None:
    facts = {f"c{number}": f"price {number}/h" for number in range(30)}
    choice = ClusterChoice(ranks=tuple((name, at) for at, name in enumerate(facts)), facts=facts)
    said = choice.why("c1")
    assert said.startswith("c1: price 1/h; c0: no room, price 0/h; c2: after it in the order, price 2/h")
    assert said.endswith("; 22 more")
