"""AppWrapper in both generations of its API, the quota trees of the first generation, and their labels and annotations.

Both generations have the same kind name in the same API group. Phalanx serves them as two versions of one kind. An
object belongs to the first generation if it has the field `resources`, and to the second if it has the field
`components`. The version in which the object is read does not matter. Before MCAD 1.34.1 the kinds of the first
generation were in other API groups, with the same fields. Phalanx serves these older kinds as separate kinds.
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
DEFAULT_NODE: Final = "default"  # the node of a quota tree for AppWrappers that name no node of the tree
MANAGER: Final = f"{GROUP}/appwrapper-controller"
PREFIX: Final = f"{GROUP}.appwrapper/"
LABEL: Final = f"{GROUP}/appwrapper"  # label on wrapped objects and their pods: the AppWrapper's name
# Labels on wrapped objects and their pods in the first generation: the AppWrapper's name, the wrapped object's name.
MCAD_LABELS: Final = ("appwrapper.mcad.ibm.com", "resourceName")
USER, USER_ID = f"{GROUP}/user", f"{GROUP}/userid"  # labels on the AppWrapper: the name and the id of its user
INSTANCES: Final = "orderedinstance"  # label on the AppWrapper: the machine types that InstaScale adds for it
# Annotation on the AppWrapper: the user who created it, written by the admission policy.
CREATOR: Final = "phalanx.dev/user"
# Annotation on the AppWrapper: the groups of that user, joined by commas.
CREATOR_GROUPS: Final = "phalanx.dev/user-groups"
# Annotation on its pods: the AppWrapper's uid, because a later AppWrapper may have the same name.
UID: Final = f"{PREFIX}uid"
POD_SET: Final = f"{PREFIX}pod-set"  # label on its pods: the name of the pod's pod set


def node_queue(tree: str, node: str) -> str:
    """Return the name of the Phalanx Queue for a node of a quota tree. `tree`: the name of the tree. `node`: the name
    of the node."""
    return f"quotasubtree/{tree}/{node}"


def labels_queue(labels: dict[str, str]) -> str:
    """Return a temporary queue name for an AppWrapper of the first generation: a text with all its labels. Later
    `quota_trees.claim` finds the node of a quota tree that the labels name."""
    return "quotasubtree/" + ",".join(f"{key}={value}" for key, value in sorted(labels.items()) if "/" not in key)


def labels_of(queue: str) -> dict[str, str] | None:
    """Return the labels in a text that `labels_queue` has built; None if `queue` is not such a text."""
    head, _, text = queue.partition("/")
    if head != "quotasubtree":
        return None
    return {key: value for key, _, value in (part.partition("=") for part in text.split(",")) if key}
