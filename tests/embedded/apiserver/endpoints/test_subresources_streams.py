"""Protocols of streams over SPDY: the best that both sides speak."""

from __future__ import annotations

import pytest

from phalanx.embedded.apimachinery.meta.status import StatusError
from phalanx.embedded.apiserver.endpoints.subresources.streams import _chosen


def test_of_the_protocols_over_spdy_the_best_that_both_speak_is_chosen() -> None:
    assert _chosen("exec", "v4.channel.k8s.io, v3.channel.k8s.io") == "v4.channel.k8s.io"
    assert _chosen("portforward", "portforward.k8s.io") == "portforward.k8s.io"
    with pytest.raises(StatusError, match="unable to negotiate protocol: client supports") as caught:
        _chosen("exec", "v2.channel.k8s.io")
    assert caught.value.code == 403
