"""The kind AppWrapper, and the words on it and on what it wraps."""

from __future__ import annotations

from typing import Final

from phalanx.client.kind import Kind

NAME: Final = "appwrapper"
GROUP: Final = "workload.codeflare.dev"
APP_WRAPPERS = Kind(group=GROUP, version="v1beta2", plural="appwrappers", name="AppWrapper")
MANAGER: Final = f"{GROUP}/appwrapper-controller"
PREFIX: Final = f"{GROUP}.appwrapper/"
LABEL: Final = f"{GROUP}/appwrapper"  # on all that is made, and on its pods: the AppWrapper's name
USER, USER_ID = f"{GROUP}/user", f"{GROUP}/userid"  # labels on the AppWrapper
CREATOR: Final = "phalanx.dev/user"  # annotation on it: who created it, by the admission policy
CREATOR_GROUPS: Final = "phalanx.dev/user-groups"  # the same: his groups, with commas between
POD_SET: Final = f"{PREFIX}pod-set"  # label on its pods: the set of pods that they are of
