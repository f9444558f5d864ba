"""Infer the types in CEL expressions, as far as they are certain. If an operator does not exist for any possible types
of its operands, the user gets cel-go's error when writing the expression, before any evaluation.

The check reads the tokens of the expression once, by operator precedence, and gives each part a type. A part whose type
is not known (a value without a schema, a struct, some function calls) has the type `dyn`, which every operator accepts.
So the check refuses no expression that cel-go would accept. If the check cannot read an expression to its end, it
reports nothing. The check also reports fields that a type does not have. Source: cel-go `checker/checker.go` and
`checker/standard.go`, with the comparisons of numbers of different types that k8s.io/apiserver allows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from phalanx.embedded.apimachinery.caching import RULE, cached
from phalanx.embedded.apimachinery.expressions.metering import located, tokens

DYN = "dyn"


@dataclass(frozen=True, slots=True, eq=False)
class TypeShape:
    """The type of objects. Two such types are equal only if they are the same Python object. `field`: returns the type
    of a field by its name; None if there is no such field."""

    field: Callable[[str], Type | None]


# A type: the name of a scalar type or `dyn`, ("list", item type), ("map", key type, value type), or the shape of an
# object.
Type = str | tuple[Any, ...] | TypeShape


def type_text(sort: Type) -> str:
    """Return the name of a type as cel-go prints it."""
    if isinstance(sort, tuple):
        return f"{sort[0]}({', '.join(map(type_text, sort[1:]))})"
    return sort if isinstance(sort, str) else DYN if sort is ANY else "object"


# The type of values without a schema, which is `dyn` in cel-go, too. Other parts of an expression whose type the check
# cannot determine have the type `DYN`.
ANY: TypeShape = TypeShape(lambda name: ANY)

_NUMBERS = frozenset({"int", "uint", "double"})
_SCALARS = _NUMBERS | {"string", "bool", "bytes", "timestamp", "duration"}
_ORDER = (("||",), ("&&",), ("<", "<=", ">", ">=", "==", "!=", "in"), ("+", "-"), ("*", "/", "%"))
_LEVEL = {operator: level for level, operators in enumerate(_ORDER) for operator in operators}
_LOGIC, _COMPARE = frozenset({"||", "&&"}), frozenset({"<", "<=", ">", ">="})
_TIMES = {
    ("+", "timestamp", "duration"): "timestamp",
    ("+", "duration", "timestamp"): "timestamp",
    ("-", "timestamp", "timestamp"): "duration",
    ("-", "timestamp", "duration"): "timestamp",
}
_SAME = {
    "+": _NUMBERS | {"string", "bytes", "duration"},
    "-": _NUMBERS | {"duration"},
    "*": _NUMBERS,
    "/": _NUMBERS,
    "%": frozenset({"int", "uint"}),
}
_RESULTS: dict[str, Type] = {
    **dict.fromkeys(("contains", "startsWith", "endsWith", "matches", "has", "isSorted", "isQuantity"), "bool"),
    **dict.fromkeys(("all", "exists", "exists_one", "isLessThan", "isGreaterThan", "bool"), "bool"),
    **dict.fromkeys(("size", "indexOf", "lastIndexOf", "compareTo", "int", "getFullYear", "getHours"), "int"),
    **dict.fromkeys(("string", "lowerAscii", "upperAscii", "trim", "replace", "substring", "charAt", "join"), "string"),
    **{name: name for name in ("uint", "double", "bytes", "timestamp", "duration")},
    "find": "string",
    "split": ("list", "string"),
    "findAll": ("list", "string"),
}
_OF_TEXTS = frozenset({"contains", "startsWith", "endsWith", "matches"})
_ON_EACH = frozenset({"all", "exists", "exists_one", "filter", "map"})


class _Unread(Exception):
    """Raised if the expression has a part that this module does not support."""


@dataclass(frozen=True, slots=True)
class TypeChecked:
    """The result of a check. `type`: the type of the whole expression; `dyn` if there are errors. `errors`: the
    messages of cel-go, each with its position in the expression."""

    type: Type
    errors: tuple[str, ...] = ()


def check(text: str, variables: Mapping[str, Type]) -> TypeChecked:
    """Return the type of the expression as far as it is known, and the errors that are certain. `variables`: name ->
    type; all other names have the type `dyn`."""
    reader = _Reader(text, dict(variables))
    try:
        found = reader.ternary()
        if reader.at != len(reader.words):
            return TypeChecked(DYN)
    except (_Unread, IndexError, RecursionError):
        return TypeChecked(DYN)
    return TypeChecked(DYN if reader.errors else found, tuple(reader.errors))


@dataclass(slots=True)
class _Reader:
    text: str
    variables: dict[str, Type]
    words: Sequence[tuple[str, str, int]] = field(init=False)
    at: int = 0
    place: int = 0  # the offset of the part that was read last, as cel-go counts it in messages
    errors: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.words = _words(self.text)

    def ternary(self) -> Type:
        found = self.binary(0)
        if not self.takes("?"):
            return found
        place = self.words[self.at - 1][2]
        found, yes = _plain(found), self.ternary()
        self.expect(":")
        no = self.ternary()
        if found not in ("bool", DYN):
            return self.wrong(place, "_?_:_", f"({_shown(found)}, {_shown(yes)}, {_shown(no)})", found, yes, no)
        self.place = place
        return yes if yes == no else ANY if ANY in (yes, no) else DYN

    def binary(self, level: int) -> Type:
        """Read an operand and all following operators of this precedence or a higher one. Return the type of the
        result."""
        found = self.unary()
        while self.at < len(self.words) and (own := _LEVEL.get(self.words[self.at][1], -1)) >= level:
            _, operator, place = self.words[self.at]
            self.at += 1
            other = self.binary(own + 1)
            found, other = _plain(found), _plain(other)
            result = _result(operator, found, other)
            if result is None:
                name = "@in" if operator == "in" else f"_{operator}_"
                result = self.wrong(place, name, f"({_shown(found)}, {_shown(other)})", found, other)
            found, self.place = result, place
        return found

    def unary(self) -> Type:
        for operator, fit in (("!", {"bool"}), ("-", {"int", "double"})):
            if self.takes(operator):
                place, found = self.words[self.at - 1][2], self.unary()
                if found in _SCALARS and found not in fit:
                    return self.wrong(place, f"{operator}_", f"({_shown(found)})", found)
                return found
        found = self.primary()
        while self.at < len(self.words) and self.words[self.at][1] in (".", "["):
            found = self.member(found) if self.takes(".") else self.item(found)
        return found

    def item(self, found: Type) -> Type:
        place = self.words[self.at][2]
        self.expect("[")
        key = self.ternary()
        self.expect("]")
        self.place = place
        match found:
            case ("list", of) if key in (_SCALARS - {"int"}):
                return self.wrong(place, "_[_]", f"({_shown(found)}, {_shown(key)})", found, key) if of else DYN
            case ("list", of):
                return _type(of)
            case ("map", keys, values):
                if key in _SCALARS and keys in _SCALARS and key != keys:
                    return self.wrong(place, "_[_]", f"({_shown(found)}, {_shown(key)})", found, key)
                return _type(values)
        return found if found is ANY else DYN

    def member(self, found: Type) -> Type:
        kind, name, _ = self.words[self.at]
        dot = self.words[self.at - 1][2]
        if kind != "name":
            raise _Unread
        self.at += 1
        if self.at < len(self.words) and self.words[self.at][1] == "(":
            return self.call(name, found)
        if self.takes("{"):
            return self.struct()
        self.place = dot
        match found:
            case TypeShape(field=field_of):
                of = field_of(name)
                if of is None:
                    self.errors.append(located(self.text, dot, f"undefined field '{name}'"))
                return DYN if of is None else of
            case ("map", _, values):
                return _type(values)
        return DYN

    def call(self, name: str, on: Type | None) -> Type:
        place = self.words[self.at][2]
        self.expect("(")
        if on is not None and name in _ON_EACH:
            return self.each(name, on, place)
        given: list[Type] = []
        while not self.takes(")"):
            given.append(self.ternary())
            if not self.takes(","):
                self.expect(")")
                break
        if name in _OF_TEXTS and on in _SCALARS and len(given) == 1:
            assert on is not None
            if on != "string" or given[0] in _SCALARS - {"string"}:
                return self.wrong(place, name, f"{_shown(on)}.({_shown(given[0])})", on, given[0])
        if name == "size" and on is None and len(given) == 1 and given[0] in (_SCALARS - {"string", "bytes"}):
            return self.wrong(place, name, f"({_shown(given[0])})", given[0])
        self.place = place
        return _RESULTS.get(name, DYN)

    def each(self, name: str, on: Type, place: int) -> Type:
        """Read the arguments of a comprehension over a value of the type `on`, and return the type of the result. The
        variable has the type of the elements of `on`."""
        kind, variable, _ = self.words[self.at]
        self.at += 1
        if kind != "name" or not self.takes(","):
            raise _Unread
        element = _type(on[1]) if isinstance(on, tuple) and on[0] in ("list", "map") else ANY if on is ANY else DYN
        before = dict(self.variables)
        self.variables[variable] = element
        bodies = [self.ternary()]
        while self.takes(","):
            bodies.append(self.ternary())
        self.expect(")")
        self.variables, self.place = before, place
        if name == "map":
            return ("list", bodies[-1])
        return on if name == "filter" else "bool"

    def primary(self) -> Type:
        kind, word, _ = self.words[self.at]
        self.at += 1
        if kind == "string":
            # In a bytes literal, the prefix before the quote contains `b`.
            return "bytes" if "b" in word[: word.index(word[-1])].lower() else "string"
        if kind == "number":
            return "uint" if word[-1] in "uU" else "double" if "." in word or _is_float(word) else "int"
        if kind == "name":
            return self.named(word)
        if word == "(":
            found = self.ternary()
            self.expect(")")
            return found
        if word == "[":
            return ("list", _common(self.several("]")))
        if word == "{":
            return self.mapping()
        raise _Unread

    def named(self, word: str) -> Type:
        if word in ("true", "false"):
            return "bool"
        if word == "null":
            return DYN
        if self.at < len(self.words) and self.words[self.at][1] == "(":
            return self.call(word, None)
        if self.takes("{"):
            return self.struct()
        return self.variables.get(word, DYN)

    def struct(self) -> Type:
        """Read the fields of a struct literal. The result is `DYN`, because the check does not know the types of
        structs."""
        while not self.takes("}"):
            self.at += 1
            self.expect(":")
            self.ternary()
            if not self.takes(","):
                self.expect("}")
                break
        return DYN

    def literal(self, types: list[Type]) -> None:
        """Read the next value of a list or map literal, and add its type to `types`. All values of one literal must
        have the same type."""
        self.place = self.words[self.at][2]
        types.append(self.ternary())
        one, other = types[0], types[-1]
        if one != other and _is_certain(one) and _is_certain(other):
            what = f"expected type '{_shown(one)}' but found '{_shown(other)}'"
            self.errors.append(located(self.text, self.place, what))

    def several(self, end: str) -> list[Type]:
        found: list[Type] = []
        while not self.takes(end):
            self.literal(found)
            if not self.takes(","):
                self.expect(end)
                break
        return found

    def mapping(self) -> Type:
        keys, values = list[Type](), list[Type]()
        while not self.takes("}"):
            self.literal(keys)
            self.expect(":")
            self.literal(values)
            if not self.takes(","):
                self.expect("}")
                break
        return ("map", _common(keys), _common(values))

    def takes(self, word: str) -> bool:
        found = self.at < len(self.words) and self.words[self.at][1] == word and self.words[self.at][0] == "sign"
        self.at += found
        return found

    def expect(self, word: str) -> None:
        if not self.takes(word):
            raise _Unread

    def wrong(self, place: int, name: str, applied: str, *types: Type) -> Type:
        """Report that no operator or function `name` exists for the operand types `types`. Nothing is reported if one
        of the types is an object type, whose name is not known."""
        if not any(_has_object(one) for one in types):
            what = f"found no matching overload for '{name}' applied to '{applied}'"
            self.errors.append(located(self.text, place, what))
        return DYN


@cached(64, RULE)  # a policy's expression is checked for several kinds, one after the other
def _words(text: str) -> tuple[tuple[str, str, int], ...]:
    """Return (kind, token, offset) of each token, without spaces. An operator of two characters is one token."""
    found, at = list[tuple[str, str, int]](), 0
    for kind, word in tokens(text):
        if kind == "other":
            kind = "number" if word[0].isdigit() else "sign"
        if kind == "sign" and found and found[-1][0] == "sign" and found[-1][2] == at - 1:
            both = found[-1][1] + word
            if both in ("&&", "||", "==", "!=", "<=", ">="):
                found[-1] = ("sign", both, at - 1)
                at += 1
                continue
        if kind != "space":
            found.append((kind, word, at))
        at += len(word)
    return tuple(found)


def _result(operator: str, one: Type, other: Type) -> Type | None:
    """Return the type of `one operator other`; None if the operator does not exist for these types."""
    if operator in _LOGIC:
        return None if {one, other} - {"bool", DYN} and _known(one, other) else "bool"
    if operator == "in":
        within = other[1] if isinstance(other, tuple) and other[0] in ("list", "map") else DYN
        return None if ({one, within} <= _SCALARS and one != within) or other in _SCALARS else "bool"
    if DYN in (one, other) or isinstance(one, TypeShape) or isinstance(other, TypeShape):
        return "bool" if operator in _COMPARE or operator in ("==", "!=") else DYN
    if not (isinstance(one, str) and isinstance(other, str)):
        return _of_lists_and_maps(operator, one, other)
    if operator in _COMPARE:
        return "bool" if one == other or {one, other} <= _NUMBERS else None
    if operator in ("==", "!="):
        return "bool" if one == other else None
    return _TIMES.get((operator, one, other)) or (one if one == other and one in _SAME[operator] else None)


def _of_lists_and_maps(operator: str, one: Type, other: Type) -> Type | None:
    """Return the type of `one operator other`, where at least one operand is a list or a map; None if the operator does
    not exist for these types."""
    if not _alike(one, other):
        return None
    if operator in ("==", "!="):
        return "bool"
    return one if operator == "+" and isinstance(one, tuple) and one[0] == "list" else None


def _alike(one: Type, other: Type) -> bool:
    """Return True if one value could have both types."""
    if DYN in (one, other) or isinstance(one, TypeShape) or isinstance(other, TypeShape):
        return True
    if isinstance(one, str) or isinstance(other, str):
        return one == other
    return one[0] == other[0] and all(map(_alike, one[1:], other[1:]))


def _known(*types: Type) -> bool:
    return all(isinstance(one, str) for one in types)


def _plain(one: Type) -> Type:
    return DYN if one is ANY else one


def _is_certain(one: Type) -> bool:
    return one is ANY or one in _SCALARS


def _common(types: list[Type]) -> Type:
    return types[0] if types and all(one == types[0] for one in types) else DYN


def _type(of: Any) -> Type:
    found: Type = of
    return found


def _is_float(word: str) -> bool:
    return "e" in word.lower() and not word.lower().startswith("0x")


def _has_object(one: Type) -> bool:
    return isinstance(one, TypeShape) or (isinstance(one, tuple) and any(map(_has_object, one[1:])))


def _shown(one: Type) -> str:
    match one:
        case str():
            return one
        case (name, *parts):
            return f"{name}({', '.join(map(_shown, parts))})"
    return DYN
