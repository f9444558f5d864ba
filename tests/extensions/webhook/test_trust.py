"""A certificate that an API server believes, from the first one to years later, with replicas that come and go."""

from __future__ import annotations

import asyncio
import base64
import datetime as dt
import math
import ssl
from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from typing import Any

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

from phalanx.client.connection import ApiRefusal, ApiUnknown
from phalanx.client.kind import SECRETS, Kind
from phalanx.embedded.apiserver.auth.authority import Pair, make_authority
from phalanx.extensions.webhook.serving import show, tls_context
from phalanx.extensions.webhook.trust import AUTHORITY_LIFE, PAUSE_S, Keeper
from phalanx.kube.install.admission_policy import WEBHOOK, WEBHOOKS
from tests import clockwork

NAMES = ("phalanx-webhook.phalanx-system.svc", "10.0.0.7")
YEARS = 2
BEGIN = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


class Server:
    """Secret and configuration as deploy/ makes them, with the conflicts that a real server tells."""

    def __init__(self) -> None:
        self.objects: dict[str, Any] = {
            SECRETS.plural: {"metadata": {"name": "phalanx-webhook", "resourceVersion": "1"}},
            WEBHOOKS.plural: deepcopy(WEBHOOK) | {"metadata": {"resourceVersion": "1"}},
        }
        self.broken = False
        self.writes = 0

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Any:
        await asyncio.sleep(0)
        if self.broken:
            raise ApiUnknown("it is away")
        if kind.plural not in self.objects:
            raise ApiRefusal(404, "NotFound", f'{kind.plural} "{name}" not found')
        return deepcopy(self.objects[kind.plural])

    async def replace(self, kind: Kind, body: Any) -> Any:
        await asyncio.sleep(0)
        there = self.objects[kind.plural]
        if body["metadata"]["resourceVersion"] != there["metadata"]["resourceVersion"]:
            raise ApiRefusal(409, "Conflict", "the object has been modified")
        version = str(int(there["metadata"]["resourceVersion"]) + 1)
        self.objects[kind.plural] = deepcopy(body) | {"metadata": {**body["metadata"], "resourceVersion": version}}
        self.writes += 1
        return self.objects[kind.plural]

    @property
    def trusted(self) -> list[x509.Certificate]:
        """Return the authority that the API server trusts."""
        bundle = self.objects[WEBHOOKS.plural]["webhooks"][0]["clientConfig"].get("caBundle")
        return x509.load_pem_x509_certificates(base64.b64decode(bundle)) if bundle else []

    def believes(self, served: Pair, now: dt.datetime) -> bool:
        """What a TLS client checks, as far as time and signature go."""
        certificate = served.certificate
        if not certificate.not_valid_before_utc <= now < certificate.not_valid_after_utc:
            return False
        return any(signed(certificate, one) and now < one.not_valid_after_utc for one in self.trusted)


def signed(certificate: x509.Certificate, by: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(by)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


class Replica:
    def __init__(self, server: Server, clock: list[dt.datetime]) -> None:
        self.shown: list[Pair] = []
        self.keeper = Keeper(server, "phalanx-system", NAMES, self.shown.append, lambda: clock[0])  # type: ignore[arg-type]  # a double


def test_the_first_certificate_is_believed_and_names_the_service() -> None:
    server, clock = Server(), [BEGIN]
    replica = Replica(server, clock)
    assert replica.keeper.wrong() == "no certificate has been created yet"
    clockwork.run(replica.keeper.step())
    assert replica.keeper.wrong() == ""
    (served,) = replica.shown
    assert server.believes(served, BEGIN)
    found = served.certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert found.get_values_for_type(x509.DNSName) == [NAMES[0]]
    assert [str(one) for one in found.get_values_for_type(x509.IPAddress)] == [NAMES[1]]
    assert replica.keeper.ends_s == served.certificate.not_valid_after_utc.timestamp()


def test_replicas_that_start_at_once_share_one_authority() -> None:
    server, clock = Server(), [BEGIN]
    replicas = [Replica(server, clock) for _ in range(3)]

    async def together() -> None:
        await asyncio.gather(*(one.keeper.step() for one in replicas))
        await asyncio.gather(*(one.keeper.step() for one in replicas))

    clockwork.run(together())
    assert len(server.trusted) == 1
    assert all(server.believes(one.shown[-1], BEGIN) for one in replicas)
    assert len({one.shown[-1].certificate.serial_number for one in replicas}) == 3


@pytest.mark.slow
def test_years_pass_and_nobody_is_ever_shown_what_he_does_not_believe() -> None:
    """One replica steps every other day, another once in six, a third is replaced by a new one every month."""
    server, clock = Server(), [BEGIN]
    steady, seldom = Replica(server, clock), Replica(server, clock)
    authorities = set()

    async def life() -> None:
        young = Replica(server, clock)
        for day in range(0, YEARS * 365, 2):
            clock[0] = BEGIN + dt.timedelta(days=day)
            await steady.keeper.step()
            if day % 6 == 0:
                await seldom.keeper.step()
            young = Replica(server, clock) if day % 30 == 0 else young
            await young.keeper.step()
            authorities.update(one.serial_number for one in server.trusted)
            for one in (steady, seldom, young):
                assert server.believes(one.shown[-1], clock[0]), (day, one is seldom)
                assert one.keeper.wrong() == ""

    clockwork.run(life())
    lives = YEARS * dt.timedelta(days=365) / AUTHORITY_LIFE
    assert len(authorities) == math.ceil(lives * 3 / 2), "each is replaced when two thirds of its life are over"
    assert len(server.trusted) <= 2
    assert len(steady.shown) >= YEARS * 365 // 22, "and so is what is served"


def test_a_tls_client_believes_the_old_and_the_new_while_they_change() -> None:
    """What the virtual clock plays through, checked once by a real handshake: at the time of a real renewal."""
    now = dt.datetime.now(dt.UTC)
    server, clock = Server(), [now - dt.timedelta(days=244)]
    early, late = Replica(server, clock), Replica(server, clock)
    clockwork.run(early.keeper.step())
    for days in (2, 1):
        clock[0] = now - dt.timedelta(days=days)
        clockwork.run(early.keeper.step())
        clockwork.run(late.keeper.step())
    assert len(server.trusted) == 1
    clock[0] = now
    clockwork.run(early.keeper.step())
    assert len(server.trusted) == 2, "the next authority is trusted beside the last"
    assert not signed(early.shown[-1].certificate, server.trusted[0]), "and not used yet"
    assert handshake(server, early.shown[-1])
    clockwork.run(early.keeper.step())
    assert signed(early.shown[-1].certificate, server.trusted[0])
    assert handshake(server, early.shown[-1])
    assert handshake(server, late.shown[-1]), "who has not looked yet is believed, too"


def handshake(server: Server, served: Pair) -> bool:
    """As an API server begins a call: with the bundle of the configuration, for the name of the Service."""
    bundle = server.objects[WEBHOOKS.plural]["webhooks"][0]["clientConfig"]["caBundle"]
    asking = ssl.create_default_context(cadata=base64.b64decode(bundle).decode())
    context = tls_context()
    show(context, served)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = asking.wrap_bio(to_client, to_server, server_hostname=NAMES[0])
    there = context.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(5):
        for side in (client, there):
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
    return client.version() is not None


def test_nothing_is_written_while_nothing_changes() -> None:
    server, clock = Server(), [BEGIN]
    replica = Replica(server, clock)
    clockwork.run(replica.keeper.step())
    before = server.writes
    for day in range(15):
        clock[0] = BEGIN + dt.timedelta(days=day)
        clockwork.run(replica.keeper.step())
    assert server.writes == before
    assert len(replica.shown) == 1


def test_a_bundle_that_somebody_took_out_is_put_back() -> None:
    """As `kubectl replace` of the manifests would; until then the calls fail, so it is looked at often."""
    server, clock = Server(), [BEGIN]
    replica = Replica(server, clock)
    clockwork.run(replica.keeper.step())
    del server.objects[WEBHOOKS.plural]["webhooks"][0]["clientConfig"]["caBundle"]
    clockwork.run(replica.keeper.step())
    assert server.believes(replica.shown[-1], BEGIN)
    assert PAUSE_S <= 15


def strangers() -> Iterator[dict[str, str]]:
    """Invalid contents of the Secret: nothing, garbage, the wrong key, an encrypted key."""
    pair, other = (make_authority(name, BEGIN, AUTHORITY_LIFE) for name in ("one", "other"))
    locked = pair.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    yield {"ca.crt": "AAAA", "ca.key": "AAAA"}
    yield {"ca.crt": "", "ca.key": ""}
    yield {"ca.crt": "?"}
    for key in (other.key_pem, locked):
        files = {"ca.crt": pair.certificate_pem, "ca.key": key}
        yield {name: base64.b64encode(text).decode() for name, text in files.items()}


@pytest.mark.parametrize("data", tuple(strangers()), ids=["nonsense", "empty", "half", "another's key", "encrypted"])
def test_a_secret_that_is_none_is_made_anew(data: dict[str, str]) -> None:
    server, clock = Server(), [BEGIN]
    server.objects[SECRETS.plural]["data"] = data
    replica = Replica(server, clock)
    clockwork.run(replica.keeper.step())
    assert server.believes(replica.shown[-1], BEGIN)


def test_an_api_server_that_is_away_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    server, clock = Server(), [BEGIN]
    replica = Replica(server, clock)

    async def life() -> None:
        keeping = asyncio.ensure_future(replica.keeper.keep())
        await asyncio.sleep(1)
        server.broken = True
        await asyncio.sleep(10 * PAUSE_S)
        assert replica.keeper.wrong() == ""
        clock[0] += dt.timedelta(days=31)
        assert "the certificate has expired: it is away" in replica.keeper.wrong()
        server.broken = False
        await asyncio.sleep(2 * PAUSE_S)
        assert replica.keeper.wrong() == ""
        keeping.cancel()

    clockwork.run(life())
    assert caplog.text.count("it is away") == 1
    assert len(replica.shown) == 2


@pytest.mark.parametrize("missing", [SECRETS, WEBHOOKS], ids=lambda kind: kind.plural)
def test_what_is_not_installed_is_named(missing: Kind) -> None:
    server, clock = Server(), [BEGIN]
    del server.objects[missing.plural]
    replica = Replica(server, clock)

    async def life() -> None:
        keeping = asyncio.ensure_future(replica.keeper.keep())
        await asyncio.sleep(1)
        keeping.cancel()

    clockwork.run(life())
    assert "deploy/overlays/webhook creates it" in replica.keeper.wrong()
    assert replica.shown == []
