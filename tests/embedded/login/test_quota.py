"""`embedded/login/quota.py`: limits on the namespace of a user."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from phalanx.embedded.login.grants import give_namespace
from phalanx.embedded.login.quota import DEFAULT, parse_quota, slot_share
from phalanx.errors import PhalanxError
from tests.embedded.login.test_rules import ADA, HOME, MERGE, Object, _Wire, shared

QUOTA = f"{HOME}/resourcequotas/phalanx"


FULL = "exceeded quota: phalanx, requested: phalanx.dev/objects=1, used: phalanx.dev/objects="


def test_a_user_fills_his_namespace_and_no_more(tmp_path: Path) -> None:
    async def act() -> None:
        async with shared(tmp_path) as (admin, ada):
            quota = (await ada.ask("GET", QUOTA)).body["spec"]["hard"]
            assert quota == DEFAULT
            there = sum(admin.api.engine.store.tally.objects("user-ada").values())
            tight = {"spec": {"hard": {"phalanx.dev/objects": str(there + 2), "phalanx.dev/bytes": "64Ki"}}}
            assert (await ada.ask("PATCH", QUOTA, tight, MERGE)).code == 403
            assert (await admin.ask("PATCH", QUOTA, tight, MERGE)).code == 200
            for name in "ab":
                await ada.make(f"{HOME}/configmaps", {"metadata": {"name": name}})
            answer = await ada.ask("POST", f"{HOME}/secrets", {"metadata": {"name": "c"}})
            assert answer.code == 403
            assert f'secrets "c" is forbidden: {FULL}{there + 2}' in answer.body["message"]
            large = {"data": {"x": "x" * 2**16}}
            answer = await ada.ask("PATCH", f"{HOME}/configmaps/a", large, MERGE)
            assert (answer.code, "requested: phalanx.dev/bytes=65" in answer.body["message"]) == (403, True)
            wire: Any = _Wire(admin)
            assert await give_namespace(wire, ADA) == "user-ada"  # the login succeeds, and the quota stays
            assert (await ada.ask("GET", QUOTA)).body["spec"] == tight["spec"] | {
                "hard": DEFAULT | tight["spec"]["hard"]
            }
            assert (await ada.ask("DELETE", f"{HOME}/configmaps/a")).code == 200
            await ada.make(f"{HOME}/secrets", {"metadata": {"name": "c"}})

    asyncio.run(act())


def test_the_share_of_a_slot_is_that_of_the_node_with_the_least() -> None:
    def node(**offered: str) -> Object:
        return {"status": {"allocatable": offered}}

    assert slot_share([]) == slot_share([{"metadata": {}}]) == {}
    small, large = node(cpu="2", memory="4Gi", pods="110"), node(cpu="100", memory="1Ti", pods="110")
    assert slot_share([large, small]) == {"cpu": "18m", "memory": "37Mi"}


@pytest.mark.parametrize("text", ["pods", "pods=many", "pods=1,,services=2"])
def test_a_quota_that_is_none_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(PhalanxError, match=r"is not understood.*NAME=AMOUNT"):
        parse_quota(text)


def test_a_quota_is_the_default_one_with_what_was_said() -> None:
    assert parse_quota("pods=100,services=10") == {**DEFAULT, "services": "10", "pods": "100"}
