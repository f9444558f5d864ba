"""`client/access/credentials.py`: run credential plug-ins of kubeconfigs."""

from __future__ import annotations

import asyncio
from pathlib import Path

from phalanx.client.access.credentials import ask
from phalanx.client.access.kubeconfig import read_kubeconfig
from tests.client.test_credentials import credential, plugin


def test_a_plugin_is_told_its_environment_and_the_cluster(tmp_path: Path) -> None:
    more = ", env: [{name: WHO, value: me}], args: [one], provideClusterInfo: true"
    script = f'test "$WHO$1" = meone && echo "$KUBERNETES_EXEC_INFO" > {tmp_path}/info\n' + credential('"token": "t"')
    cluster, user = read_kubeconfig([plugin(tmp_path, script, more)], None)
    assert user.plugin is not None
    assert asyncio.run(ask(user.plugin, cluster)).token == "t"
    info = (tmp_path / "info").read_text()
    assert '"interactive":false' in info
    assert '"server":"https://127.0.0.1:1"' in info
