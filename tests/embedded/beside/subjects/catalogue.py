"""The subjects of conversations, and the conversation of a seed."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.embedded.beside.conversation import Conversation, Talk
from tests.embedded.beside.subjects.applies import applies
from tests.embedded.beside.subjects.custom import custom_resources, definitions, rules
from tests.embedded.beside.subjects.methods import methods
from tests.embedded.beside.subjects.policies import mutations, policies
from tests.embedded.beside.subjects.rights import limits, reviews, rights
from tests.embedded.beside.subjects.services import applications, services
from tests.embedded.beside.subjects.workloads import jobs, pods
from tests.embedded.beside.subjects.wrong_objects import lives, wrong_objects

SUBJECTS: dict[str, Callable[[Talk], None]] = {
    "custom": custom_resources,
    "rules": rules,
    "definitions": definitions,
    "wrong": wrong_objects,
    "lives": lives,
    "methods": methods,
    "jobs": jobs,
    "pods": pods,
    "services": services,
    "applications": applications,
    "policies": policies,
    "mutations": mutations,
    "rights": rights,
    "reviews": reviews,
    "limits": limits,
    "applies": applies,
}


def conversation_of(seed: int) -> Conversation:
    """Return the conversation of a seed. Subjects take turns; the rest is drawn."""
    subject = list(SUBJECTS)[seed % len(SUBJECTS)]
    talk = Talk(Random(f"{subject} {seed}"))
    SUBJECTS[subject](talk)
    return Conversation(subject=subject, seed=seed, asks=tuple(talk.asks), cleanup=tuple(talk.cleanup))
