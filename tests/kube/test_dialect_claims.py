"""`kube/capacity/dialect_claims.py`: which dialect claims which gang, and the objects that claims are about."""

from __future__ import annotations

from phalanx.client.kind import CONFIG_MAPS
from phalanx.dialects.frame.dialect import Claim
from phalanx.kube.capacity.dialect_claims import DialectClaims

KEY = "default/one"


def test_a_claim_is_replaced_by_the_next_and_forgotten() -> None:
    claims = DialectClaims()
    claims.note("g", "kai", Claim(queue="q", silent=True, about=(CONFIG_MAPS, KEY)))
    claims.note("h", "kai", Claim(queue="q", about=(CONFIG_MAPS, KEY)))
    assert (claims.claimed, claims.silent, claims.of("kai")) == ({"g": "kai", "h": "kai"}, {"g"}, ["g", "h"])
    assert set(claims.about(CONFIG_MAPS, KEY)) == {"g", "h"}
    claims.note("g", "volcano", Claim(queue="q"))
    assert (claims.silent, claims.of("kai"), claims.of("volcano")) == (set(), ["h"], ["g"])
    assert set(claims.about(CONFIG_MAPS, KEY)) == {"h"}
    claims.forget("h")
    assert (claims.claimed, list(claims.about(CONFIG_MAPS, KEY))) == ({"g": "volcano"}, [])
