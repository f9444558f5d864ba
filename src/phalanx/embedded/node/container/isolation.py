"""Find out which kinds of isolation this machine supports, for example whether containers can have their own mounts and
host name, as root or in a user namespace.

At its start, the agent tries the operations that containers need. If these operations fail both as root and in a user
namespace, pods run without volumes, and cannot find each other by name. The agent reports this problem."""

from __future__ import annotations

import json
import logging
import os
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path

from phalanx.embedded.node.container.attempt import Root
from phalanx.embedded.node.container.shim.fork_server import interpreter, sealing_refusal, shim_command
from phalanx.embedded.trees import remove_tree

log = logging.getLogger(__name__)

# the prefix of the folders with containers' own files; the name of a volume cannot begin with a dot
ROOT_PREFIX = ".root-"
_PROBE_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Isolation:
    """The isolation that this machine supports. Each field `…refusal` states why a kind of isolation is not supported;
    "" if it is supported. `refusal`: why containers cannot have their own mounts and host names. `user_namespace`: True
    if containers need a user namespace for their mounts and host names. `root_refusal`: why containers cannot have the
    files of an image as their root. `overlay_refusal`: why the files of an image must be copied for each container.
    `shared_refusal`: why containers of other users than the agent's user cannot have mounts."""

    refusal: str = ""
    user_namespace: bool = False
    root_refusal: str = ""
    overlay_refusal: str = ""
    shared_refusal: str = ""


def find_isolation(folder: Path) -> Isolation:
    """Try each kind of isolation with files in `folder`, and return the isolation that this machine supports. Raises
    OSError."""
    place = folder / ".probe"
    place.touch(mode=0o600)
    refusal = _tried("--probe", str(place), str(place))
    place.unlink(missing_ok=True)
    if refusal:
        log.warning(
            "pods on this node cannot find each other by name and cannot mount volumes: %s. Run as root, "
            "or allow user namespaces (sysctl user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns)",
            refusal,
        )
    overlay = _tried_root(folder / ".probe-root", layered=True)
    root = _tried_root(folder / ".probe-root", layered=False) if overlay else ""
    root = root or sealing_refusal()
    if root:
        log.warning("this node can only run `image: host`, and no other images: %s", root)
    elif overlay:
        log.warning("overlayfs does not work (%s): each container gets a copy of its image's files", overlay)
    shared = _tried("--probe-confined", str(folder)) if os.geteuid() == 0 else "only root can run pods as their users"
    return Isolation(
        refusal=refusal,
        user_namespace=os.geteuid() != 0,
        root_refusal=root,
        overlay_refusal=overlay,
        shared_refusal=refusal or shared,
    )


def _tried_root(place: Path, *, layered: bool) -> str:
    remove_tree(place)
    for name in ("layer", "upper", "work", "stage"):
        (place / name).mkdir(mode=0o755, parents=True)
    root = Root(stage=str(place / "stage"))
    if layered:
        upper, work = str(place / "upper"), str(place / "work")
        root = Root(stage=root.stage, layers=(str(place / "layer"),), upper=upper, work=work)
    try:
        return _tried("--probe-root", json.dumps(asdict(root)))
    finally:
        remove_tree(place)


def _tried(*words: str) -> str:
    """Run a test in a separate process. Return the reason why the test failed; "" if it succeeded."""
    try:
        answer = subprocess.run(
            shim_command(*words),
            executable=interpreter(),
            check=False,
            capture_output=True,
            text=True,
            timeout=_PROBE_S,
        )
    except subprocess.TimeoutExpired:
        return "trying it took too long"
    return answer.stdout or (f"exit code {answer.returncode}" if answer.returncode else "")
