"""The settings of all controllers."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from phalanx.embedded.controllers.job.controller import JobSettings
from phalanx.embedded.controllers.nodes import GRACE_S
from phalanx.embedded.controllers.operators.appwrapper.controller import Wrapping
from phalanx.embedded.controllers.operators.profiles import Profiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of all controllers. `in_flight`: the maximum number of simultaneous calls of all controllers
    together. `events_window_s`: the time for which Events are collected before they are written. `namespace_again_s`:
    the interval between two checks of a terminating namespace. `node_grace_s`: the time without a renewal of its Lease
    after which a node is lost. `most_finished_pods`: the maximum number of finished pods; above it, the oldest finished
    pods are deleted. `root_ca`: the certificate of the API's authority (PEM), which is published to pods; "" if no
    certificate is published.
    `volumes_dir`: the folder in which volumes are created for claims; None if no volumes are created. `wrappings`: the
    data and functions for each kind of AppWrapper. `profiles`: the custom resource kind whose objects (profiles) change
    new pods; None if there is no such kind."""

    in_flight: int = 64
    events_per_s: float = 100.0
    events_window_s: float = 1.0
    namespace_again_s: float = 1.0
    node_grace_s: float = GRACE_S
    node_period_s: float = 5.0
    most_finished_pods: int = 12_500
    root_ca: str = ""
    volumes_dir: Path | None = None
    job: JobSettings = field(default_factory=JobSettings)
    wrappings: tuple[Wrapping, ...] = ()
    profiles: Profiles | None = None
