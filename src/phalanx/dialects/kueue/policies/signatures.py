"""Record the creator of a job that names a LocalQueue. Limits and shares of users, and the ledger, use the creator.

Phalanx's own policy (`kube/install/admission_policy`) signs jobs with Phalanx's labels, and forbids any change of a
signature. So this policy signs a job once: when it is created, or when it gets the label.
"""

from __future__ import annotations

from typing import Final

from phalanx.client.kind import JOBS, Kind
from phalanx.client.policies import rule
from phalanx.dialects.frame.dialect import Object
from phalanx.dialects.job_kinds.supported import FRAMEWORKS, SIGNED_BY_THEIR_DIALECT
from phalanx.dialects.kueue.kinds import QUEUE_LABEL
from phalanx.dialects.kueue.policies.policy import NOT_OWNED, QUEUED, mutating

_USER = "phalanx.dev/user"
_OLD_LABELS = "oldObject.metadata.labels"
_NEW_IN_ITS_QUEUE = (
    f'request.operation == "CREATE" || !has({_OLD_LABELS}) || !("{QUEUE_LABEL}" in {_OLD_LABELS} || '
    f'"phalanx.dev/queue" in {_OLD_LABELS})'
)
_SIGNATURE = f'Object{{metadata: Object.metadata{{annotations: {{"{_USER}": request.userInfo.username}}}}}}'
_SIGNED_HERE = (JOBS, *(kind for kind in FRAMEWORKS if kind not in SIGNED_BY_THEIR_DIALECT))
_RULES = [rule(kind.group, kind.plural, "CREATE", "UPDATE", versions=(kind.version,)) for kind in _SIGNED_HERE]

SIGNATURE_POLICIES: Final[tuple[tuple[Kind, Object], ...]] = (
    *mutating("users", _RULES, {"queued": QUEUED, "own": NOT_OWNED, "new": _NEW_IN_ITS_QUEUE}, _SIGNATURE),
)
