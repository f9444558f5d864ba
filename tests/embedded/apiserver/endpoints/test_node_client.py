"""Where the agent of a node is reached, and what becomes of its refusals."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.embedded.apimachinery.meta.status import StatusError
from phalanx.embedded.apiserver.endpoints.subresources.node_client import endpoint_of, refused


def node(*addresses: tuple[str, str], port: int | None = 10250) -> dict[str, Any]:
    status: dict[str, Any] = {"addresses": [{"type": kind, "address": address} for kind, address in addresses]}
    if port is not None:
        status["daemonEndpoints"] = {"kubeletEndpoint": {"Port": port}}
    return {"metadata": {"name": "n"}, "status": status}


def test_the_first_internal_address_counts() -> None:
    found = endpoint_of(node(("Hostname", "n"), ("InternalIP", "10.0.0.1"), ("InternalIP", "10.0.0.2")))
    assert found == ("10.0.0.1", 10250)
    assert endpoint_of(node(("InternalIP", "fd00::1"))) == ("[fd00::1]", 10250)


@pytest.mark.parametrize(
    "said", [node(("Hostname", "n")), node(("InternalIP", "10.0.0.1"), port=None), {"metadata": {"name": "n"}}]
)
def test_a_node_without_an_agent_is_told(said: dict[str, Any]) -> None:
    with pytest.raises(StatusError, match="node n has no address in its status") as raised:
        endpoint_of(said)
    assert raised.value.code == 400


@pytest.mark.parametrize(
    ("code", "text", "reason", "message"),
    [
        (404, "no such pod\n", "NotFound", "no such pod"),
        (403, "", "Forbidden", "the node answered 403"),
        (503, " ", "InternalError", "the node answered 503"),
    ],
)
def test_a_refusal_has_the_nodes_words(code: int, text: str, reason: str, message: str) -> None:
    error = refused(code, text)
    assert (error.code, error.reason, error.message) == (code, reason, message)
