"""Parse `queues.yaml`. The names, types and defaults of the fields are the same as in YuniKorn's parser. Unknown fields
are errors, as in YuniKorn.

First the text is parsed into a tree of mappings, lists and strings, together with the line number of each value. Then
the tree is decoded into the classes of this module. YuniKorn decodes each scalar by the type of its field, so `vcore:
2` and `vcore: "2"` mean the same. Therefore the tree contains every scalar as a string, and the decoder converts it to
the type of its field.

Any user who may write the ConfigMap controls the text, and the scheduler makes no decisions while it parses the text.
So there are maximums for the size of the file, its depth, its number of queues and its number of values. The values of
a YAML alias are counted each time that the alias is used.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias

import msgspec
import yaml

from phalanx.dialects.schema.depth import require_shallow
from phalanx.dialects.schema.fields import Path
from phalanx.errors import PhalanxError

MOST_BYTES, MOST_VALUES, MOST_LEVELS, MOST_QUEUES = 1 << 20, 50_000, 100, 5_000
ROOT, ANYBODY = "root", "*"
_STEP = re.compile(r"\.(\w+)|\[(\d+|\.\.\.)\]")
_NULLS, _TRUE, _FALSE = ("", "~", "null", "Null", "NULL"), ("true", "yes", "on", "y"), ("false", "no", "off", "n")


Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]


class YuniKornConfigurationError(PhalanxError):
    """An error that makes the whole file invalid. `line`: the line number of the wrong value; the first line has the
    number 1."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(f"line {line}: {text}")
        self.line, self.text = line, text


class _Fields(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename=lambda name: name.replace("_", "")
):
    """The base class of the file's structures. The name of a field in the file is its name in Go in lower case; for
    example, `max_applications` is written `maxapplications`."""


class Resources(_Fields, frozen=True):
    """The guarantee and the maximum of a queue by resource, as the file writes them (`checks.amounts` reads them)."""

    guaranteed: dict[str, str] | None = None
    max: dict[str, str] | None = None


class Limit(_Fields, frozen=True):
    """A limit on the resources and applications that a user, or the users of a group, may have in the queue and the
    queues below."""

    limit: str = ""
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    max_resources: dict[str, str] = {}
    max_applications: Count = 0


class ChildTemplate(_Fields, frozen=True):
    """The template of queues that a placement rule creates."""

    max_applications: Count = 0
    properties: dict[str, str] = {}
    resources: Resources = Resources()


class QueueBranch(_Fields, frozen=True):
    """A queue with all queues below it. `parent`: True if the queue may have children even if the file lists none."""

    name: str = ""
    parent: bool = False
    resources: Resources = Resources()
    max_applications: Count = 0
    properties: dict[str, str] = {}
    admin_acl: str = ""
    submit_acl: str = ""
    child_template: ChildTemplate = ChildTemplate()
    queues: tuple[QueueBranch, ...] = ()
    limits: tuple[Limit, ...] = ()


class Filter(_Fields, frozen=True):
    """The users and groups to whose applications a placement rule applies. With `type: deny`, the rule applies to the
    applications of all other users and groups."""

    type: str = ""
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()


class PlacementRule(_Fields, frozen=True):
    """A rule that chooses the queue of an application. `parent`: the rule that chooses the queue above it."""

    name: str = ""
    create: bool = False
    filter: Filter = Filter()
    parent: PlacementRule | None = None
    value: str = ""


class PartitionPreemption(_Fields, frozen=True):
    """The switches of both kinds of preemption. None means YuniKorn's default, which is on for `enabled` and off for
    preemption by quota."""

    enabled: bool | None = None
    quota_preemption_enabled: bool | None = None


class NodeSortPolicy(_Fields, frozen=True):
    """The order in which the scheduler tries nodes."""

    type: str = ""
    resource_weights: dict[str, float] = {}


class UserGroupResolver(_Fields, frozen=True):
    """The source from which YuniKorn takes the groups of a user."""

    type: str = ""


class QueuePartition(_Fields, frozen=True):
    """The queues of one cluster. `queues`: the list in the file; None if the file has no such field, which is an
    error."""

    name: str = ""
    queues: tuple[QueueBranch, ...] | None = None
    placement_rules: tuple[PlacementRule, ...] = ()
    limits: tuple[Limit, ...] = ()
    preemption: PartitionPreemption = PartitionPreemption()
    node_sort_policy: NodeSortPolicy = NodeSortPolicy()
    user_group_resolver: UserGroupResolver = UserGroupResolver()


class YuniKornConfiguration(_Fields, frozen=True):
    """The whole content of `queues.yaml`."""

    partitions: tuple[QueuePartition, ...] = ()
    checksum: str = ""


def parse(text: str) -> tuple[YuniKornConfiguration, Lines]:
    """Return the fields of the file, and the line numbers of its values. Raise YuniKornConfigurationError if the file
    is invalid."""
    if len(text.encode()) > MOST_BYTES:
        raise YuniKornConfigurationError(1, f"the file has more than {MOST_BYTES} bytes")
    try:
        require_shallow(text, 2 * MOST_VALUES)  # twice, because names of values are counted, too
        node = next(iter(yaml.compose_all(text, yaml.CSafeLoader)), None)
    except yaml.YAMLError as error:
        mark, said = getattr(error, "problem_mark", None), " ".join(str(error).split())
        # For an error at the end of the text, libyaml reports a line after the last one.
        line = 1 + min(mark.line, text.count("\n")) if mark else 1
        raise YuniKornConfigurationError(line, f"no YAML: {said}" if mark else said) from None
    lines: Lines = {(): 1}
    tree = {} if node is None else _Reader(lines).value(node, (), 0)
    try:
        return msgspec.convert({} if tree is None else tree, YuniKornConfiguration, strict=False), lines
    except msgspec.ValidationError as error:
        said, _, at = str(error).partition(" - at `$")
        path = tuple(int(number) if number.isdigit() else name for name, number in _STEP.findall(at))
        raise _error(said, path, lines) from None


Lines = dict[Path, int]


def line_of(lines: Lines, path: Path) -> int:
    """Return the line of the value at the path. If it has no line, return the line of the nearest value that contains
    it."""
    while path not in lines:
        path = path[:-1]
    return lines[path]


# --- internal ---------------------------------------------------------------------------------------------------------


def _error(text: str, path: Path, lines: Lines) -> YuniKornConfigurationError:
    """Return an error of msgspec, rewritten to an error about a line of the file that uses YuniKorn's names."""
    names = [step for step in path if isinstance(step, str)]
    where = f" of {names[-1]}" if names else ""
    if text.startswith("Object contains unknown field"):
        name = text.split("`")[1]
        said = f"there is no field {name!r}{where}; YuniKorn refuses a file with fields that it does not know"
        return YuniKornConfigurationError(line_of(lines, (*path, name)), said)
    return YuniKornConfigurationError(
        line_of(lines, path), f"the value{where} cannot be read: {text[:1].lower()}{text[1:]}"
    )


class _Reader:
    """Reads YAML's nodes as plain values. As in Go, null means that the field is absent."""

    def __init__(self, lines: Lines) -> None:
        self._lines, self._left = lines, MOST_VALUES

    def value(self, node: yaml.Node, path: Path, level: int) -> Any:
        self._lines[path] = line = node.start_mark.line + 1
        self._left -= 1
        if level > MOST_LEVELS or self._left < 0:
            raise YuniKornConfigurationError(line, f"more than {MOST_LEVELS} levels, or more than {MOST_VALUES} values")
        match node:
            case yaml.MappingNode():
                return self._mapping(node, path, level)
            case yaml.SequenceNode():
                return [self.value(one, (*path, at), level + 1) for at, one in enumerate(node.value)]
        assert isinstance(node, yaml.ScalarNode), "YAML has three kinds of nodes"
        text: str = node.value
        if node.style is None and text in _NULLS:
            return "" if path[-2:-1] in _MAPPINGS else None
        return _flag(text) if path[-1:] in _FLAGS else text

    def _mapping(self, node: yaml.MappingNode, path: Path, level: int) -> Mapping[str, Any]:
        found: dict[str, Any] = {}
        for key, inside in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                raise YuniKornConfigurationError(line, "the name of a field is not a text")
            if key.value in found:
                raise YuniKornConfigurationError(line, f"{key.value!r} is written twice")
            value = self.value(inside, (*path, key.value), level + 1)
            self._lines[(*path, key.value)] = line
            found[key.value] = value
        return {name: value for name, value in found.items() if value is not None}


# Fields with mappings. A missing value in such a mapping counts as an empty text.
_MAPPINGS = {("guaranteed",), ("max",), ("maxresources",), ("properties",)}
_FLAGS = {("parent",), ("create",), ("enabled",), ("quotapreemptionenabled",)}  # `parent` of a rule is a mapping


def _flag(text: str) -> str:
    """Return "true" or "false" if the text is a word of YAML 1.1 that Go accepts for a bool; return any other text
    unchanged."""
    low = text.lower()
    return "true" if low in _TRUE else "false" if low in _FALSE else text
