"""`cli/submission/moving/belongings.py`: objects of jobs move with their jobs, and only then."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

from phalanx.cli.submission.moving.belongings import Belonging, belongings, copy_belongings, own
from phalanx.cli.submission.moving.images import Replacement
from phalanx.cli.submission.moving.portable import Copier, MoveTally
from phalanx.cli.submission.moving.surroundings import ROLE_BINDINGS, ROLES
from phalanx.client.kind import CONFIG_MAPS, JOBS, SECRETS, SERVICE_ACCOUNTS, SERVICES
from phalanx.slurm.cluster.site import Site
from tests.cli.two_clusters import Server, ends, made

IMAGES = Replacement(site=Site())
JOB = ("Job", "ns", "train")
SECRET = made("script", ("Job", "train"), data={"sh": base64.b64encode(b"true").decode()})
ACCOUNT = made("account", ("Secret", "script"))


def found(source: Server, *moving: tuple[str, str, str]) -> list[Belonging]:
    return asyncio.run(belongings(ends(source, Server("target")), moving))


def names(of: list[Belonging]) -> list[str]:
    return [one.obj["metadata"]["name"] for one in of]


def test_objects_belong_to_a_job_directly_or_through_others() -> None:
    source = Server(
        "source",
        (ROLE_BINDINGS, made("binding", ("ServiceAccount", "account"))),
        (ROLES, made("role", ("ServiceAccount", "account"))),
        (SERVICE_ACCOUNTS, ACCOUNT),
        (SECRETS, SECRET),
        (SECRETS, made("of-another", ("Job", "other"))),
        (SECRETS, made("of-nobody")),
    )
    assert names(found(source, JOB)) == ["script", "account", "role", "binding"]
    assert found(source) == []


def test_a_job_of_the_same_name_in_another_namespace_or_of_another_kind_owns_nothing() -> None:
    source = Server("source", (SECRETS, SECRET))
    assert found(source, ("Job", "other", "train"), ("Pod", "ns", "train")) == []


def test_only_owners_that_move_are_kept() -> None:
    source = Server("source", (CONFIG_MAPS, made("shared", ("Job", "train"), ("Job", "stays"))))
    [one] = found(source, JOB)
    assert one.owners == (("Job", "train"),)


def copied(target: Server, *of: Belonging) -> MoveTally:
    copier = Copier(target=target, tally=MoveTally())  # type: ignore[arg-type]  # a double
    asyncio.run(copy_belongings(copier, of, IMAGES))
    return copier.tally


def service(name: str, **spec: Any) -> Belonging:
    return Belonging(kind=SERVICES, obj=made(name, ("Job", "train"), spec=spec), owners=(("Job", "train"),))


def test_a_copy_of_a_service_gets_its_addresses_from_the_target() -> None:
    target = Server("target")
    ports = [{"port": 1}]
    copied(
        target,
        service("headless", clusterIP="None", clusterIPs=["None"], ipFamilies=["IPv4"], ports=ports),
        service("plain", clusterIP="10.0.0.1", clusterIPs=["10.0.0.1"], healthCheckNodePort=3, ports=ports),
    )
    assert target.at(SERVICES, "headless")["spec"] == {"clusterIP": "None", "ports": ports}
    assert target.at(SERVICES, "plain")["spec"] == {"ports": ports}


def test_copies_have_no_owner_until_the_jobs_exist() -> None:
    target = Server("target")
    copied(target, Belonging(kind=SECRETS, obj=SECRET, owners=(("Job", "train"),)))
    assert "ownerReferences" not in target.at(SECRETS, "script")["metadata"]
    assert target.at(SECRETS, "script")["data"] == SECRET["data"]


def owned(target: Server, *of: Belonging) -> None:
    asyncio.run(own(ends(Server("source"), target), of, IMAGES))


def refs(target: Server, kind: Any, name: str) -> list[tuple[str, str]]:
    return [(ref["kind"], ref["uid"]) for ref in target.at(kind, name)["metadata"].get("ownerReferences", ())]


CHAIN = (
    Belonging(kind=SECRETS, obj=SECRET, owners=(("Job", "train"),)),
    Belonging(kind=SERVICE_ACCOUNTS, obj=ACCOUNT, owners=(("Secret", "script"),)),
)


def test_owners_are_the_copies_of_the_owners() -> None:
    target = Server("target", (JOBS, made("train")))
    copied(target, *CHAIN)
    owned(target, *CHAIN)
    assert refs(target, SECRETS, "script") == [("Job", target.at(JOBS, "train")["metadata"]["uid"])]
    assert refs(target, SERVICE_ACCOUNTS, "account") == [("Secret", target.at(SECRETS, "script")["metadata"]["uid"])]


def test_a_repeated_move_adds_no_owner_twice() -> None:
    target = Server("target", (JOBS, made("train")))
    copied(target, *CHAIN)
    owned(target, *CHAIN)
    writes = list(target.writes)
    copied(target, *CHAIN)
    owned(target, *CHAIN)
    assert target.writes == writes


def test_an_owner_is_added_beside_those_that_are_there() -> None:
    target = Server("target", (JOBS, made("train")))
    there = made("script", ("Pod", "first"), apiVersion="v1", kind="Secret", data=SECRET["data"])
    target.put(SECRETS, there)
    owned(target, CHAIN[0])
    assert [kind for kind, _ in refs(target, SECRETS, "script")] == ["Pod", "Job"]


def test_without_the_job_at_the_target_an_object_gets_no_owner() -> None:
    target = Server("target")
    copied(target, *CHAIN)
    owned(target, *CHAIN)
    assert refs(target, SECRETS, "script") == []
    owned(Server("target", (JOBS, made("train"))), *CHAIN)  # an object that does not exist any more is no error


def test_another_object_of_that_name_does_not_become_the_jobs() -> None:
    """The garbage collector would delete a Secret of the target's users together with the moved job."""
    target = Server("target", (JOBS, made("train")), (SECRETS, made("script", data={"password": "eA=="})))
    copied(target, *CHAIN)
    owned(target, *CHAIN)
    assert refs(target, SECRETS, "script") == []
    assert target.at(SECRETS, "script")["data"] == {"password": "eA=="}
