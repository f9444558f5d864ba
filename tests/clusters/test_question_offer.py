"""The prices and the data of a cluster."""

from __future__ import annotations

from phalanx.clusters.question import offer_of
from tests.clusters.sought import cluster, sought


def test_a_price_is_that_of_all_pods_for_an_hour_and_a_bad_entry_is_shown_and_ignored() -> None:
    offer = offer_of(cluster("a", "cpu=0.5, memory=0.25", "coco"))
    assert offer.price(sought().roles) == 1.5
    assert offer.data == {"coco"}
    assert not offer.wrong
    for bad in ("cpu", "cpu=x", "cpu=-1", "=1", "cpu=nan"):
        wrong = offer_of(cluster("a", f"{bad},memory=1"))
        assert dict(wrong.prices) == {"memory": 1.0}
        assert repr(bad) in wrong.wrong
        assert "cpu=0.04" in wrong.wrong
