"""A finding of `phalanx doctor`."""

from __future__ import annotations

from dataclasses import dataclass

OK, WARNING, PROBLEM = "ok", "warning", "problem"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A finding. `about`: the subject of the check. `mend`: what to do; empty if nothing is wrong."""

    about: str
    state: str
    text: str
    mend: str = ""
