"""`--policy FILE`: the settings of the whole cluster, from YAML or Python, with errors that name the line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import yaml

from phalanx.cli.files.priority_file import SUFFIX, Tolerant, read_priority_file
from phalanx.dialects.enabled import DIALECTS as FRAMED
from phalanx.dialects.job_kinds.replica_types import NAME as KUBEFLOW
from phalanx.dialects.schema.fields import Misread
from phalanx.dialects.schema.fields import Path as Place
from phalanx.dialects.schema.policy import read_policy
from phalanx.errors import PhalanxError
from phalanx.model.policy import Policy

DIALECTS = frozenset({KUBEFLOW, *FRAMED})
_DIALECTS = "dialects"  # key in the text for other processes
_FUNCTION = "priorityFunction"  # the same


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """`policy`, and its text in the file. `dialects`: the other schedulers whose pods and kinds Phalanx serves.
    `function`: the name of the file whose Python computes priorities; only the scheduler that read it can call it."""

    policy: Policy
    values: Mapping[str, Any]
    dialects: frozenset[str] = frozenset()
    function: str = ""

    def text(self) -> str:
        """Return the settings as a text for other processes, which read it with `settings_from`; "" if all settings are
        defaults."""
        said = dict(self.values)
        if self.dialects:
            said[_DIALECTS] = sorted(self.dialects)
        if self.function:
            said[_FUNCTION] = self.function
        return msgspec.json.encode(said).decode() if said else ""


def settings_of(file: Path | None, default_queue: str | None = None) -> PolicySettings:
    """Return the settings of the file, or the defaults; `default_queue` wins over the file's. Raises PhalanxError."""
    found = None if file is None or file.suffix != SUFFIX else read_priority_file(file)
    values = dict({} if file is None else _values(file) if found is None else found.policy)
    if default_queue is not None:
        values["defaultQueue"] = default_queue
    if found is None:
        return PolicySettings(read_policy(values), values)
    try:
        policy = replace(read_policy(values), priority_function=Tolerant(found.function))
    except Misread as misread:
        raise PhalanxError(f"{file}: policy: {misread}") from None
    return PolicySettings(policy, values, function=file.name if file is not None else "")


def settings_from(text: str) -> PolicySettings:
    """Return the settings of another process (`PolicySettings.text`); the defaults if the text cannot be read."""
    try:
        values = msgspec.json.decode(text or "{}", type=dict[str, Any])
        dialects = frozenset(map(str, values.pop(_DIALECTS, ())))
        function = str(values.pop(_FUNCTION, ""))
        return PolicySettings(read_policy(values), values, dialects, function)
    except (msgspec.MsgspecError, Misread):
        return PolicySettings(Policy(), {})


def _values(file: Path) -> Mapping[str, Any]:
    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise PhalanxError(f"the policy {file} cannot be read: {error}") from error
    try:
        tree, values = yaml.compose(text, yaml.SafeLoader), yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise PhalanxError(f"the policy {file} is no YAML: {' '.join(str(error).split())}") from error
    try:
        read_policy(values)
    except Misread as error:
        raise PhalanxError(f"{file}:{_line(tree, error.path)}: {error}") from None
    return values or {}


def _line(node: Any, path: Place) -> int:
    """Return the line of the value at `path`, counted from 1, or of the innermost value around it that exists."""
    found = 1 if node is None else node.start_mark.line + 1
    for step in path:
        inside = None
        if isinstance(node, yaml.MappingNode):
            inside = next(((key, value) for key, value in node.value if key.value == str(step)), None)
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
            inside = (node.value[step], node.value[step])
        if inside is None:
            break
        found, node = inside[0].start_mark.line + 1, inside[1]
    return int(found)
