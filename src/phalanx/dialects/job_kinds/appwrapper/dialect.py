"""Combine the parts of the AppWrapper dialect into one `frame.Dialect`. The nodes of MCAD's quota trees become queues.
The scheduler reads AppWrappers themselves as Jobs (`job_form`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from phalanx.dialects.frame.dialect import Dialect, Object
from phalanx.dialects.frame.fields import Ignored, unused
from phalanx.dialects.job_kinds.appwrapper import kinds, quota_trees
from phalanx.dialects.job_kinds.appwrapper.admission import POLICIES
from phalanx.dialects.job_kinds.appwrapper.generic_items import is_mcad
from phalanx.dialects.job_kinds.appwrapper.tables import APP_WRAPPER, MCAD, QUOTA_SUBTREE, WORDS


def _notes(kind: str, obj: Object) -> Iterable[str]:
    if kind == kinds.QUOTA_SUBTREES.name:
        yield from unused(obj.get("spec") or {}, QUOTA_SUBTREE)
    if kind != kinds.APP_WRAPPERS.name:
        return
    spec = obj.get("spec") or {}
    yield from unused(spec, MCAD if is_mcad(spec) else APP_WRAPPER)
    meta = obj.get("metadata") or {}
    for key in (*(meta.get("annotations") or {}), *({kinds.INSTANCES} & (meta.get("labels") or {}).keys())):
        match WORDS.get(key):
            case Ignored(why):
                yield f"{key} has no effect: {why}"
            case None if key.startswith(kinds.PREFIX):
                yield f"{key} is unknown to Phalanx, and has no effect"
            case _:
                pass


APP_WRAPPER_DIALECT: Final = Dialect(
    name=kinds.NAME,
    definition_kinds=(kinds.QUOTA_SUBTREES, kinds.IBM_QUOTA_SUBTREES),
    crds="job_kinds/appwrapper/definitions.json",
    policies=POLICIES,
    define=quota_trees.define,
    claim=lambda defined, said, objects: quota_trees.claim(defined, said),
    notes=_notes,
)
