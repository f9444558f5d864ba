"""Point 2 of the protocol: queue a new Job for Phalanx, on old and new servers, and the behaviour without a policy."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.client.connection import ApiRefusal
from phalanx.client.kind import Kind
from phalanx.kube.install.admission_policy import WEBHOOK, WEBHOOKS, AdmissionMode, install_policy
from tests import clockwork


class Server:
    """A server that serves the policies in these versions, and allows their creation or refuses it."""

    def __init__(self, *versions: str, forbidden: bool = False) -> None:
        self.versions, self.forbidden = versions, forbidden
        self.made: dict[tuple[str, str], Any] = {}

    async def get(self, kind: Kind, name: str) -> Any:
        if kind.version not in self.versions or (kind.plural, name) not in self.made:
            raise ApiRefusal(404, "NotFound", "not found")
        return self.made[kind.plural, name]

    async def create(self, kind: Kind, body: Any) -> Any:
        if kind.version not in self.versions:
            raise ApiRefusal(404, "NotFound", "the server could not find the requested resource")
        if self.forbidden:
            raise ApiRefusal(403, "Forbidden", "you may not")
        self.made[kind.plural, body["metadata"]["name"]] = body
        return body


def install(server: Server) -> AdmissionMode:
    return clockwork.run(install_policy(server))  # type: ignore[arg-type]  # it answers as a connection does


@pytest.mark.parametrize(("versions", "taken"), [(("v1",), "v1"), (("v1beta1",), "v1beta1"), (("v1", "v1beta1"), "v1")])
def test_the_newest_version_that_is_served_is_taken(versions: tuple[str, ...], taken: str) -> None:
    server = Server(*versions)
    assert install(server) is AdmissionMode.POLICY
    assert len(server.made) == 4
    assert {body["apiVersion"] for body in server.made.values()} == {f"admissionregistration.k8s.io/{taken}"}


def test_what_is_there_is_left_as_it_is() -> None:
    server = Server("v1")
    install(server)
    server.forbidden, before = True, dict(server.made)
    assert install(server) is AdmissionMode.POLICY
    assert server.made == before


@pytest.mark.parametrize("server", [Server(), Server("v1", forbidden=True)], ids=["too old", "not allowed"])
def test_without_it_jobs_must_say_so_themselves(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    """The reason of such a Job states the remedy (`gang_spec`). A suspended Job with another scheduler's name is pinned
    (test_binding_pinned)."""
    assert install(server) is AdmissionMode.NEITHER
    assert "users must set suspend: true and schedulerName: phalanx" in caplog.text
    assert "deploy/overlays/webhook" in caplog.text


def webhook(server: Server, bundle: str = "AAAA") -> Server:
    hooks = [{**hook, "clientConfig": {**hook["clientConfig"], "caBundle": bundle}} for hook in WEBHOOK["webhooks"]]
    server.made[WEBHOOKS.plural, WEBHOOK["metadata"]["name"]] = {**WEBHOOK, "webhooks": hooks}
    return server


def test_where_the_webhook_is_installed_no_policy_is_put_beside_it() -> None:
    """The webhook's configuration can be read on every server, because its kind is v1 everywhere."""
    server = webhook(Server("v1"))
    assert install(server) is AdmissionMode.WEBHOOK
    assert len(server.made) == 1


def test_policies_that_are_there_are_in_force_beside_a_webhook() -> None:
    server = Server("v1")
    install(server)
    assert install(webhook(server)) is AdmissionMode.POLICY


def test_a_webhook_that_nobody_serves_is_told(caplog: pytest.LogCaptureFixture) -> None:
    assert install(webhook(Server("v1"), bundle="")) is AdmissionMode.WEBHOOK
    assert "check that `phalanx webhook` runs" in caplog.text
