"""`agent/starting/container_start.py`: the mounts of a container, and its target."""

from __future__ import annotations

from pathlib import Path

import pytest

from phalanx.embedded.node.container.attempt import Mount
from phalanx.embedded.node.container.image import Image
from phalanx.embedded.node.pod import volumes
from phalanx.embedded.node.pod.environment import EnvironmentFault
from tests.embedded.node.agent.test_run_spec import ALICE, Node, started
from tests.embedded.node.objects import container, pod


@pytest.fixture(autouse=True)
def _no_private_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a user's pod no folders of its own: only root may change their owner."""
    monkeypatch.setattr(volumes, "private_folders", lambda *about: ())


def test_an_ephemeral_container_waits_for_its_target(tmp_path: Path) -> None:
    debug = {**container("debug", "sh"), "targetContainerName": "main"}
    with pytest.raises(EnvironmentFault, match='target container "main" does not run'):
        started(Node(tmp_path), pod(ephemeralContainers=[debug]), "debug", owner=ALICE)


def test_a_node_that_cannot_mount_refuses_a_path_of_the_image(tmp_path: Path) -> None:
    image = Image(paths=(Mount(source="/opt/tools", target="/tools"),))
    with pytest.raises(EnvironmentFault, match="this node cannot mount \\(no root\\)"):
        started(Node(tmp_path, "no root"), pod(), image=image)
    assert started(Node(tmp_path, "no root"), pod()).mounts == ()
