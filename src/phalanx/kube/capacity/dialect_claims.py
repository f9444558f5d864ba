"""Remember which gangs the dialects claim. A *claim* is the set of settings that a dialect declares for a gang.

`DialectWatch` notes each claim when it reads a gang's settings. The modules that write the status of another
scheduler's objects look up here to which dialect a gang belongs."""

from __future__ import annotations

from collections.abc import Collection

from phalanx.client.kind import Kind
from phalanx.dialects.frame.dialect import Claim


class DialectClaims:
    """The claims of all gangs (the settings that dialects declare for them). `claimed`: a map from a gang to its
    dialect. `silent`: the gangs for which no status is written, because their claims forbid it."""

    def __init__(self) -> None:
        self.claimed: dict[str, str] = {}
        self.silent: set[str] = set()
        # Gang -> the object that its claim names (`Claim.about`). When that object changes, the gang is reconciled.
        self._about: dict[str, tuple[Kind, str]] = {}
        self._gangs_about: dict[tuple[Kind, str], set[str]] = {}

    def note(self, gang: str, dialect: str, claim: Claim) -> None:
        """Store the claim, which is the set of settings that the dialect declares for the gang."""
        self.claimed[gang] = dialect
        (self.silent.add if claim.silent else self.silent.discard)(gang)
        self._note_about(gang, claim.about)

    def forget(self, gang: str) -> None:
        """Forget a gang that was deleted."""
        self.claimed.pop(gang, None)
        self.silent.discard(gang)
        self._note_about(gang, None)

    def of(self, dialect: str) -> list[str]:
        """Return the gangs for which the dialect has declared a claim (settings)."""
        return [gang for gang, name in self.claimed.items() if name == dialect]

    def about(self, kind: Kind, key: str) -> Collection[str]:
        """Return the gangs whose claim (a dialect's settings for the gang) names this object in `Claim.about`."""
        return self._gangs_about.get((kind, key), ())

    def _note_about(self, gang: str, about: tuple[Kind, str] | None) -> None:
        """Store which object the gang's claim names (`Claim.about`). The gang can then be looked up by the object, and
        the object by the gang."""
        before = self._about.pop(gang, None)
        if before is not None:
            self._gangs_about[before].discard(gang)
            if not self._gangs_about[before]:
                del self._gangs_about[before]
        if about is not None:
            self._about[gang] = about
            self._gangs_about.setdefault(about, set()).add(gang)
