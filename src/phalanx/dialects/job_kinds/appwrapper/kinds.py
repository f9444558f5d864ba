"""The kind AppWrapper of both generations, the quota trees of the first, and their labels and annotations.

Both generations have the same kind name in the same group. Phalanx serves them as two versions of one kind: the fields
of an object (`components`, or `resources`) decide its generation, not the version in which it is read. Before 1.34.1
MCAD's kinds were in API groups of IBM, with the same fields; Phalanx treats those as separate kinds.
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
TREE: Final = "tree"  # label on a QuotaSubtree: the name of its tree
DEFAULT_NODE: Final = "default"  # the node of a tree for AppWrappers that name no node of the tree
MANAGER: Final = f"{GROUP}/appwrapper-controller"
PREFIX: Final = f"{GROUP}.appwrapper/"
LABEL: Final = f"{GROUP}/appwrapper"  # label on wrapped objects and their pods: the AppWrapper's name
# Labels on wrapped objects and their pods in the first generation.
MCAD_LABELS: Final = ("appwrapper.mcad.ibm.com", "resourceName")
USER, USER_ID = f"{GROUP}/user", f"{GROUP}/userid"  # labels on the AppWrapper: the name and the id of its user
INSTANCES: Final = "orderedinstance"  # label on the AppWrapper: machine types for InstaScale
# Annotation on the AppWrapper: the user who created it, written by the admission policy.
CREATOR: Final = "phalanx.dev/user"
# Annotation on the AppWrapper: the groups of that user, joined by commas.
CREATOR_GROUPS: Final = "phalanx.dev/user-groups"
# Annotation on its pods: the AppWrapper's uid, because a later AppWrapper may have the same name.
UID: Final = f"{PREFIX}uid"
POD_SET: Final = f"{PREFIX}pod-set"  # label on its pods: the name of the pod's pod set


def node_queue(tree: str, node: str) -> str:
    """Return the name of the Phalanx Queue of a node of a quota tree."""
    return f"quotasubtree/{tree}/{node}"


def labels_queue(labels: dict[str, str]) -> str:
    """Return the queue that an AppWrapper of the first generation names: a text of all its labels, which
    `quota_trees.claim` resolves to a node."""
    return "quotasubtree/" + ",".join(f"{key}={value}" for key, value in sorted(labels.items()) if "/" not in key)


def labels_of(queue: str) -> dict[str, str] | None:
    """Return the labels from a text that `labels_queue` returned; None if the queue is not such a text."""
    head, _, text = queue.partition("/")
    if head != "quotasubtree":
        return None
    return {key: value for key, _, value in (part.partition("=") for part in text.split(",")) if key}
