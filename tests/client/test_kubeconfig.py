"""`client/access/kubeconfig.py`: read kubeconfig files."""

from __future__ import annotations

from pathlib import Path

from phalanx.client.access.kubeconfig import current_context
from tests.client.test_credentials import GOOD, write


def test_a_context_has_its_cluster_its_user_and_its_namespace(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(GOOD.replace("user: u}", "user: u, namespace: lab}"))
    cluster, user, namespace = current_context([path])
    assert (cluster.server, user.token, namespace) == ("https://127.0.0.1:1", "secret", "lab")
    assert current_context([write(tmp_path / "other")])[2] == "default"
