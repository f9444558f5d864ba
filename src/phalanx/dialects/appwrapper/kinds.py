"""The kind AppWrapper of both generations, the trees of quotas of the first, and the words on them.

The two generations share a name in one group. Here they are two versions of one kind: an object is of the generation
whose fields it has (`components`, or `resources`), in whichever version it is read. Before 1.34.1 MCAD had its kinds in
groups of IBM's, with the same fields: these are kinds of their own.
"""

from __future__ import annotations

from typing import Final

from phalanx.client.kind import Kind

NAME: Final = "appwrapper"
GROUP: Final = "workload.codeflare.dev"
APP_WRAPPERS = Kind(group=GROUP, version="v1beta2", plural="appwrappers", name="AppWrapper")
MCAD_VERSION: Final = "v1beta1"
QUOTA_SUBTREES = Kind(group="quota.codeflare.dev", version="v1alpha1", plural="quotasubtrees", name="QuotaSubtree")
IBM_APP_WRAPPERS = Kind(group="mcad.ibm.com", version="v1beta1", plural="appwrappers", name="AppWrapper")
IBM_QUOTA_SUBTREES = Kind(group="ibm.com", version="v1", plural="quotasubtrees", name="QuotaSubtree")
TREE: Final = "tree"  # label on a QuotaSubtree: the tree that it is of
DEFAULT_NODE: Final = "default"  # of a tree: whose AppWrappers name no node of it
MANAGER: Final = f"{GROUP}/appwrapper-controller"
PREFIX: Final = f"{GROUP}.appwrapper/"
LABEL: Final = f"{GROUP}/appwrapper"  # on all that is made, and on its pods: the AppWrapper's name
MCAD_LABELS: Final = ("appwrapper.mcad.ibm.com", "resourceName")  # the same, of the first generation
USER, USER_ID = f"{GROUP}/user", f"{GROUP}/userid"  # labels on the AppWrapper
CREATOR: Final = "phalanx.dev/user"  # annotation on it: who created it, by the admission policy
CREATOR_GROUPS: Final = "phalanx.dev/user-groups"  # the same: his groups, with commas between
UID: Final = f"{PREFIX}uid"  # annotation on its pods: the AppWrapper's uid, as one of the same name may follow
POD_SET: Final = f"{PREFIX}pod-set"  # label on its pods: the set of pods that they are of


def node_queue(tree: str, node: str) -> str:
    """Return the queue of our tree that a node of a tree of quotas is."""
    return f"quotasubtree/{tree}/{node}"


def labels_queue(labels: dict[str, str]) -> str:
    """Return the queue that an AppWrapper of the first generation names: all its labels, whatever trees there are."""
    return "quotasubtree/" + ",".join(f"{key}={value}" for key, value in sorted(labels.items()) if "/" not in key)


def labels_of(queue: str) -> dict[str, str] | None:
    """Return the labels that `labels_queue` wrote; None: it is another queue."""
    head, _, text = queue.partition("/")
    if head != "quotasubtree":
        return None
    return {key: value for key, _, value in (part.partition("=") for part in text.split(",")) if key}
