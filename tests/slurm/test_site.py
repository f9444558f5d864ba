"""The configuration of a site: as keys of a ConfigMap, and as it is stored beside other writers."""

from __future__ import annotations

import pytest

from phalanx.errors import PhalanxError
from phalanx.slurm.cluster import site
from phalanx.slurm.cluster.site import Account, Association, Partition, Site, keys, load, parse, store
from tests.slurm.fake_api import FakeApi

PATH = f"{site.PATH}/{site.SITE}"
MADE = Site(
    cluster="lab",
    accounts={"chem": Account(shares=5), "sub": Account(parent="chem", coordinators=["head", "yan"])},
    users={"ada": [Association(account="sub"), Association(account="chem")], "bob": [Association(account="chem")]},
)


def test_a_site_is_read_from_its_keys() -> None:
    found = parse(keys(MADE))
    assert (found.cluster, found.accounts) == (MADE.cluster, MADE.accounts)
    assert {user: [one.account for one in theirs] for user, theirs in found.users.items()} == {
        "ada": ["sub", "chem"],  # the default first, although another is before it by name
        "bob": ["chem"],
    }


def test_each_account_has_keys_of_its_own() -> None:
    found = keys(MADE)
    assert found["path.sub"] == "chem/sub"
    assert found["coordinators.sub"] == "head,yan"
    assert found["members.chem"] == "ada,bob"
    assert "coordinators.chem" not in found


def test_accounts_that_are_their_own_parents_end() -> None:
    ring = Site(accounts={"a": Account(parent="b"), "b": Account(parent="a")})
    assert keys(ring)["path.a"] == "b/a"


def test_without_a_config_map_there_is_one_partition() -> None:
    here = load(FakeApi())
    assert [one.name for one in here.all] == ["batch"]
    assert here.default is here.all[0] or here.default == here.all[0]
    assert Site(partitions=[Partition(name="p")]).default is None
    assert here.partition("other") is None


def test_a_config_map_that_cannot_be_read_is_told() -> None:
    with pytest.raises(PhalanxError, match="ConfigMap kube-system/phalanx-slurm cannot be read"):
        load(FakeApi({PATH: {"data": {"site": "{"}}}))


class Stored(FakeApi):
    """A ConfigMap whose version counts its writes; `meanwhile` is written by another between a read and a write."""

    def __init__(self, data: dict[str, str], meanwhile: dict[str, str] | None = None) -> None:
        super().__init__({PATH: {"metadata": {"resourceVersion": "1"}, "data": data}}, stale=meanwhile is not None)
        self.meanwhile = meanwhile or {}

    def get(self, path: str, **query: str) -> dict[str, object]:
        found = self.objects[path]
        self.objects[path] = {**found, "data": {**found["data"], **self.meanwhile}}
        return self.objects[path]


def changed(api: Stored) -> None:
    here = load(api)
    here.cluster = "new"
    store(api, here)


def test_only_what_changed_is_written() -> None:
    api = Stored(keys(Site(cluster="old")) | {"other": "kept"})
    changed(api)
    assert load(api).cluster == "new"
    assert api.objects[PATH]["data"]["other"] == "kept"


def test_a_change_of_other_keys_by_another_is_no_conflict() -> None:
    api = Stored(keys(Site(cluster="old")), {"account.other": "{}"})
    changed(api)
    assert load(api).cluster == "new"
    assert "account.other" in api.objects[PATH]["data"]


def test_a_change_of_the_same_key_by_another_is_not_overwritten() -> None:
    theirs = keys(Site(cluster="theirs"))
    api = Stored(keys(Site(cluster="old")), theirs)
    with pytest.raises(PhalanxError, match="has just changed site of the ConfigMap"):
        changed(api)
    assert load(api).cluster == "theirs"


def test_numbers_of_associations_begin_after_those_of_root() -> None:
    assert Site().next_number() == 3
    assert Site(accounts={"a": Account(number=7)}).next_number() == 8
