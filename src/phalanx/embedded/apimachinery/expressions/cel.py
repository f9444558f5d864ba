"""Compile and evaluate expressions in CEL, the Common Expression Language. Users write them in admission policies and
in CustomResourceDefinitions.

A library evaluates the expressions (`common-expression-language`, the Rust implementation). This module adds some of
Kubernetes' extensions. Struct literals (`JSONPatch{op: "add"}`, `Object{spec: Object.spec{…}}`) are rewritten into maps
before parsing, because the library does not have these types. The module also adds the string and list functions of
k8s.io/apiserver/pkg/cel/library, `jsonpatch.escapeKey`, and the comparisons of quantities, of addresses and of URLs
(`functions`). In this module, the value of a quantity is a string. The library does not limit the cost of an
expression, so `metering` adds a counter to every comprehension. Optional types (`.?x`, `[?x]`) are not supported: a
policy with such an expression is refused when it is written.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache, cached_property
from types import MappingProxyType, ModuleType
from typing import Any

import msgspec

from phalanx.embedded.apimachinery.caching import RULE, cached
from phalanx.embedded.apimachinery.expressions import functions
from phalanx.embedded.apimachinery.expressions.metering import EXCEEDED, TICK, Budget, growth, metered, tokens
from phalanx.embedded.apimachinery.expressions.pattern import PatternError
from phalanx.embedded.apimachinery.expressions.pattern import compiled as regular
from phalanx.embedded.apimachinery.schema.quantity import QuantityParseError
from phalanx.embedded.apimachinery.schema.quantity import parse as parse_quantity

# The length of the longest string or list that an expression may create. If an expression cannot make strings and lists
# grow by more than the factor `_SMALL_GROWTH`, the size of its variables is not checked.
MOST_SIGNS, _SMALL_GROWTH = 32 * 2**20, 8
_WORDS = frozenset({"in", "true", "false", "null"})
_PARSE_ERROR = re.compile(r"Failed to parse expression '.*?': (?=ERROR: )", re.DOTALL)
_FIELD = re.compile(r"\b([A-Za-z_]\w*)\.([A-Za-z_]\w*)(?!\w*\s*\()")
_LITERAL = re.compile(r"""(?P<quote>["'])[^"'\\]*(?P=quote)""")


class ExpressionError(Exception):
    """Raised for an expression that cannot be compiled, or whose evaluation fails. The message states the reason."""


_CALL_ERROR = re.compile(
    r"Function '(\w+)' error: (?:Python function call failed: \w+: )?(.*?)\.?"
    r" Check function arguments and their types\.",
    re.DOTALL,
)
_CONVERTED = {"duration": "google.protobuf.Duration", "timestamp": "google.protobuf.Timestamp"}
_OF_NUMBERS = {
    "division by zero in CEL expression": "division by zero",
    "modulo by zero in CEL expression": "modulus by zero",
}
_CONVERTED |= {sort: sort for sort in ("int", "uint", "double", "bool")}


def _in_go(error: str) -> str:
    """Return the message of cel-go for an error that a function raised."""
    found = _CALL_ERROR.fullmatch(error)
    if found is None:
        return _of_operator(error)
    if sort := _CONVERTED.get(found[1]):
        return f"type conversion error from 'string' to '{sort}'"
    return found[2]


def _of_operator(error: str) -> str:
    text, is_pattern, _ = error.partition("' not a valid regex:")
    if is_pattern:
        try:
            regular(text[1:])
        except PatternError as wrong:
            return str(wrong)
    return "integer overflow" if error.startswith("Arithmetic overflow") else _OF_NUMBERS.get(error, error)


def _worded(error: str) -> str:
    """Return the message of cel-go for an error of the parser."""
    found = _PARSE_ERROR.match(error)
    return error[found.end() :].replace("\n| ", "\n | ") if found else error


def _escape_key(_: object, key: str) -> str:
    """Return a key in the escaped form of JSON pointers (RFC 6901). This is the function `jsonpatch.escapeKey`."""
    return key.replace("~", "~0").replace("/", "~1")


def _index_of(text: Any, part: object, start: int = 0) -> int:
    if isinstance(text, list):
        return text.index(part) if part in text else -1
    return int(text.find(part, start))


def _replace(text: str, old: str, new: str, count: int = -1) -> str:
    _within(len(text) + text.count(old) * len(new))
    return text.replace(old, new, count)


def _join(values: list[str], separator: str = "") -> str:
    _within(sum(map(len, values)) + len(values) * len(separator))
    return separator.join(values)


def _within(signs: int) -> None:
    """Check the length of a string or list before it is created. Raises ValueError if it is longer than
    `MOST_SIGNS`."""
    if signs > MOST_SIGNS:
        raise ValueError(EXCEEDED)


def _substring(text: str, start: int, end: int | None = None) -> str:
    last = len(text) if end is None else end
    for at in (start, last):
        _in_range(text, at)
    if start > last:
        raise ValueError(f"invalid substring range. start: {start}, end: {last}")
    return text[start:last]


def _char_at(text: str, at: int) -> str:
    _in_range(text, at)
    return text[at : at + 1]


def _in_range(text: str, at: int) -> None:
    if not 0 <= at <= len(text):
        raise ValueError(f"index out of range: {at}")


def _split(text: str, separator: str, most: int = -1) -> list[str]:
    if most == 0:
        return []
    return text.split(separator, most - 1 if most > 0 else -1) if separator else list(text)


def _bool(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if value in ("true", "TRUE", "True", "t", "1"):
        return True
    if value in ("false", "FALSE", "False", "f", "0"):
        return False
    raise ValueError(value)


def _quantity(text: str) -> str:
    """Check that a string is a quantity, and return it unchanged. The functions that compare quantities parse these
    strings. Raises ValueError."""
    parse_quantity(text)
    return text


def _is_quantity(text: str) -> bool:
    try:
        parse_quantity(text)
    except QuantityParseError:
        return False
    return True


def _compare_to(one: str, other: str) -> int:
    left, right = parse_quantity(one)[0], parse_quantity(other)[0]
    return (left > right) - (left < right)


_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    **functions.FUNCTIONS,
    "quantity": _quantity,
    "isQuantity": _is_quantity,
    "compareTo": _compare_to,
    "isLessThan": lambda one, other: _compare_to(one, other) < 0,
    "isGreaterThan": lambda one, other: _compare_to(one, other) > 0,
    "escapeKey": _escape_key,
    "bool": _bool,
    "charAt": _char_at,
    "find": lambda text, pattern: match[0] if (match := regular(pattern).search(text)) else "",
    "findAll": lambda text, pattern: [match[0] for match in regular(pattern).finditer(text)],
    "indexOf": _index_of,
    "isSorted": lambda values: values == sorted(values),
    "join": _join,
    "lastIndexOf": lambda text, part: text.rfind(part),
    "lowerAscii": lambda text: text.lower(),
    "replace": _replace,
    "split": _split,
    "substring": _substring,
    "sum": sum,
    "trim": lambda text: text.strip(),
    "upperAscii": lambda text: text.upper(),
}


@cache
def _library() -> ModuleType:
    """Import the library at the first expression, and return it. The library's command line is not imported, because
    importing it takes five times as long as importing the rest (a third of the time in which the server starts)."""
    sys.modules.setdefault("cel.cli", ModuleType("cel.cli"))
    import cel

    return cel


def optional(*value: object) -> object:
    """Return a CEL optional that holds the argument; without an argument, return an empty optional."""
    kind = _library().OptionalValue
    return kind.of(value[0]) if value else kind.none()


class CelScope:
    """The variables that expressions can read. Passing an object to the library costs a hundred times as much as
    evaluating an expression, so all expressions about one object share a scope. The scope contains only the fields that
    these expressions read (`CelView`). The fields are passed to the library at the first evaluation."""

    def __init__(
        self,
        variables: Mapping[str, object],
        budget: Budget | None = None,
        functions: Mapping[str, Callable[..., Any]] = MappingProxyType({}),
    ) -> None:
        """`budget`: the total cost that expressions in this scope may have. `functions`: functions in addition to those
        that all expressions have."""
        self.budget, self.variables, self.functions = budget or Budget(), dict(variables), functions

    @cached_property
    def context(self) -> Any:
        """Return the variables and functions in the form that the library needs."""
        every = {**_FUNCTIONS, **self.functions, TICK: self.budget.tick}
        return _library().Context(variables={"jsonpatch": None, **self.variables}, functions=every)

    @cached_property
    def content(self) -> bytes:
        """Return the variables as JSON, which is the key of cached results. The key is empty if results are not cached:
        the JSON is too long, or a function of the scope may return another result at the next call."""
        if self.functions:
            return b""
        try:
            data = msgspec.json.encode(self.variables)
        except TypeError:  # the result contains an optional value
            return b""
        return data if len(data) <= _REMEMBERED_BYTES else b""

    def add(self, name: str, value: object) -> None:
        """Add the result of an expression as a variable. After that, results of this scope are no longer cached,
        because different values may have the same JSON."""
        self.variables[name], self.content = value, b""
        self.context.add_variable(name, value)


# Rules and policies evaluate the same expressions on the many objects that are created from one template. The result
# depends only on the fields that an expression reads. So this cache maps (expression, variables) to the result and the
# number of steps of the evaluation. The cache drops the oldest results first (docs/decisions/0039).
_RESULTS, _REMEMBERED_BYTES = 4096, 2048
_results: dict[tuple[str, bytes], tuple[bytes, int]] = {}


def _as_json(value: object) -> bytes:
    """Return a result as JSON for the cache; empty if it is too long, or is not plain JSON."""
    try:
        data = msgspec.json.encode(value)
    except TypeError:
        return b""
    return data if len(data) <= _REMEMBERED_BYTES and msgspec.json.decode(data) == value else b""


class Expression:
    """A compiled expression. `text`: the expression as the user wrote it."""

    def __init__(self, text: str) -> None:
        self.text, self._growth = text, growth(text)
        try:
            self._program = _library().compile(metered(without_structs(text)))
        except (ValueError, RuntimeError) as error:
            raise ExpressionError(_worded(str(error))) from None

    @property
    def grows(self) -> bool:
        """Return True if the result may be much larger than the variables. In this case the size of the variables is
        limited."""
        return self._growth > _SMALL_GROWTH

    def evaluate(self, variables: CelScope | Mapping[str, object]) -> object:
        """Return the result as plain JSON. Raises `ExpressionError`, for example if a field does not exist."""
        scope = variables if isinstance(variables, CelScope) else CelScope(variables)
        if self.grows and self._growth * (len(self.text) + _size(scope)) > MOST_SIGNS:
            raise ExpressionError(EXCEEDED)
        try:
            known = _results.get((self.text, scope.content))
            if known is None:
                return self._computed(scope)
            data, steps = known
            scope.budget.spend(steps)
            return msgspec.json.decode(data)
        except KeyError as error:
            raise ExpressionError(f"no such key: {error.args[0]}") from None
        except (TypeError, ValueError, RuntimeError, IndexError, ArithmeticError) as error:
            said = EXCEEDED if EXCEEDED in str(error) else _in_go(str(error))
            if said.startswith("No such overload"):
                said = self._of_nothing(scope) or "no such overload"
            raise ExpressionError(said) from None

    def _of_nothing(self, scope: CelScope) -> str:
        """Return the error for an expression that reads a field of a variable without a value; empty if the expression
        reads no such field."""
        for name, field in _FIELD.findall(self.text):
            if name in scope.variables and scope.variables[name] is None:
                return f"no such key: {field}"
        return ""

    def _computed(self, scope: CelScope) -> object:
        left = scope.budget.left
        value = self._program.execute(scope.context)
        if scope.content and (data := _as_json(value)):
            while len(_results) >= _RESULTS:
                del _results[next(iter(_results))]
            _results[self.text, scope.content] = data, left - scope.budget.left
        return value


def _size(scope: CelScope) -> int:
    """Return the size of the variables' JSON in bytes."""
    return len(msgspec.json.encode(scope.variables, enc_hook=repr))


@cached(1024, RULE)
def compiled(text: str) -> Expression:
    """Return the compiled expression, from a cache. Raises `ExpressionError`."""
    return Expression(text)


Wanted = dict[str, "Wanted | None"]  # field -> the needed fields below it; None if all of them are needed


class CelView:
    """A reduced copy of the variables. It contains only the fields that the given expressions read. All these
    expressions must be known when the view is created."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._wanted: Wanted = {}
        for path in sorted(frozenset().union(*map(paths_of, texts)), key=len):
            _enter(self._wanted, path)

    def of(self, variables: Mapping[str, Any]) -> dict[str, Any]:
        """Return the variables with only the needed fields. The values are not copied."""
        return {name: _only(value, self._wanted[name]) for name, value in variables.items() if name in self._wanted}

    def looks_at(self, variable: str) -> bool:
        return variable in self._wanted


def _enter(wanted: Wanted, path: tuple[str, ...]) -> None:
    """Add a path to the needed fields. The caller must add shorter paths first. If a whole object is already needed, a
    longer path into this object adds nothing."""
    first, *rest = path
    if not rest:
        wanted[first] = None
    elif (inner := wanted.setdefault(first, {})) is not None:
        _enter(inner, tuple(rest))


def _only(value: object, wanted: Wanted | None) -> object:
    if wanted is None or not isinstance(value, dict):
        return value
    return {field: _only(value[field], inner) for field, inner in wanted.items() if field in value}


@cached(1024, RULE)
def paths_of(text: str) -> frozenset[tuple[str, ...]]:
    """Return the paths of all fields that an expression reads by dotted names."""
    words = [(kind, lexeme) for kind, lexeme in tokens(text) if kind != "space"]
    found, path = set[tuple[str, ...]](), list[str]()
    for number, (kind, lexeme) in enumerate(words):
        if kind == "name":
            path.append(lexeme)
            begin, end = number - 2 * len(path) + 2, number + 1
            after = [word for _, word in words[end : end + 3]]
            if after[:1] != ["."]:
                found.add(_looked_at(path, [word for _, word in words[max(0, begin - 3) : begin]], after))
                path = []
        elif lexeme != ".":
            path = []
    return frozenset(found)


def _looked_at(path: list[str], before: list[str], after: list[str]) -> tuple[str, ...]:
    """Return the path of the field that a dotted name in an expression reads. `path`: the parts of the name. `before`
    and `after`: up to three tokens before and after the name. If the expression reads one key of a map, the path
    includes only that key. If the expression only tests whether a key exists, the path ends with an empty key. The name
    of a called function is not a field: `object.spec.exists(…)` reads (object, spec)."""
    match before, after:
        case _, ["(", *_]:
            return tuple(path[:-1] if len(path) > 1 else path)
        case _, ["[", key, "]"] if _LITERAL.fullmatch(key):
            return (*path, key[1:-1])
        case _, ["[" | "+", *_]:
            pass
        case [*_, "has", "("], [")", *_]:
            return (*path, "")
        case (([key, "in"] | ["(" | "&" | "|" | "?" | ":" | ",", key, "in"]), _) if _LITERAL.fullmatch(key):
            return (*path, key[1:-1])
    return tuple(path)


def without_structs(text: str) -> str:
    """Return the expression in which each struct literal `Name.of.type{field: value}` is replaced by a map `{"field":
    value}`.

    A brace after a dotted name opens a struct. Each name directly after this brace, or after a comma at the same depth,
    is a field name. Strings and comments are not searched."""
    found: list[str] = []
    structs: list[bool] = []  # for each open bracket: True if it opens a struct
    name_starts = -1  # the index in `found` at which a dotted name began; -1 if there is none
    expects_field = False
    for kind, lexeme in tokens(text):
        if kind == "space":
            found.append(lexeme)
            continue
        if expects_field and kind == "name":
            found.append(f'"{lexeme}"')
            expects_field, name_starts = False, -1
            continue
        expects_field = False
        if lexeme == "{" and name_starts >= 0:
            del found[name_starts:]
            structs.append(True)
            expects_field = True
        elif lexeme in "{[(":
            structs.append(False)
        elif lexeme in "}])" and structs:
            structs.pop()
        elif lexeme == "," and structs and structs[-1]:
            expects_field = True
        if kind == "name" and lexeme not in _WORDS:
            name_starts = name_starts if name_starts >= 0 and found[-1] == "." else len(found)
        elif lexeme != ".":
            name_starts = -1
        found.append(lexeme)
    return "".join(found)
