"""All admission policies of the dialect. Unlike webhooks, they cannot fail to answer."""

from __future__ import annotations

from typing import Final

from phalanx.client.kind import Kind
from phalanx.dialects.frame.dialect import Object
from phalanx.dialects.kueue.policies.definition_rules import DEFINITION_POLICIES
from phalanx.dialects.kueue.policies.framework_rules import FRAMEWORK_POLICIES, SENDING_POLICIES
from phalanx.dialects.kueue.policies.job_rules import JOB_POLICIES, SIGNATURE_POLICIES

POLICIES: Final[tuple[tuple[Kind, Object], ...]] = (
    *JOB_POLICIES,
    *FRAMEWORK_POLICIES,
    *SENDING_POLICIES,
    *SIGNATURE_POLICIES,
    *DEFINITION_POLICIES,
)
