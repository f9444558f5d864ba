"""Values that are wrong somewhere: of another type, too large, too deep, too strange, or nearly right."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

Json = Any

TEXTS = (
    *("", " ", "a", "A", "-", ".", "..", "/", "//", "a/b", "a/b/c", "%", "%2e%2e", "*", "?", "#", "\x00", "\n", "\r\n"),
    *(
        "ü",
        "😀",
        "\u202e",
        "\ufeff",
        "a" * 63,
        "a" * 64,
        "a" * 253,
        "a" * 254,
        "a" * 300,
        "a." * 130,
        "a-",
        "-a",
        "a_b",
    ),
    *("true", "null", "0", "1", "-1", "1.5", "None", "NaN", "[]", "{}", "$(A)", "$patch", "~0~1", "kube-system"),
    *("9" * 5000, "9" * 5000 + "%", "²", "١", "²%", "0-²", "0-1,3-" + "9" * 30, "v" + "9" * 5000, "a" * 5000 + "!"),
    *("system:masters", "system:admin", "default", "Always", "Never", "Delete", "Orphan", "Foreground", "All"),
)
NUMBERS = (
    *(0, 1, -1, 2, 100, 65535, 65536, 2**31 - 1, 2**31, -(2**31) - 1, 2**53, 2**63 - 1, 2**63, 2**64, 10**30),
    *(0.5, -0.5, 1e300, -1e300, 5e-324, 1.0),
)
QUANTITIES = (
    *("1", "0", "-1", "100m", "0.1", "1Gi", "1e3", "1e100", "1e999999999", "1E-999999999", "1e99999999999999999999"),
    *(
        "9" * 400,
        "." * 3,
        "1.5.5",
        "Ki",
        "1kk",
        "++1",
        "1n",
        "0.0000000001",
        "9223372036854775808",
        "10E",
        "1 Gi",
        "e5",
    ),
)
TIMES = (
    *("2026-01-01T00:00:00Z", "2026-01-01T00:00:00.000000Z", "0000-00-00T00:00:00Z", "9999-12-31T23:59:59-23:59"),
    *("0001-01-01T00:00:00+23:59", "2026-13-40T99:99:99Z", "2026-01-01", "now", "2026-01-01T00:00:00+99:99"),
)
SELECTORS = (
    *(
        "a=b",
        "a",
        "!a",
        "a in (b,c)",
        "a notin ()",
        "a>1",
        "a<x",
        "a in (",
        "a==b,,c",
        "=",
        ",",
        "(",
        "a in (b",
        "a!=b",
    ),
    *("metadata.name=a", "spec.nodeName=", "status.phase!=Running", "x.y=z", "metadata.name", "metadata.name=a,b=c"),
    *("a" * 300 + "=b", "a=" + "b" * 300, "a in (" + ",".join("x" * 200) + ")"),
)
NAMES = (
    "a",
    "b",
    "c",
    "web",
    "web-0",
    "j",
    "cm",
    "default",
    "kube-root-ca.crt",
    "missing",
    "A",
    "..",
    "a.b",
    "x" * 254,
)
KEYS = ("", "a", "a/b", "a/b/c", "kubernetes.io/x", "-", "x" * 300, "ü", "$patch", "metadata", "~1", "*", ".", "[0]")


def nasty(random: Random) -> Json:
    """Any value at all, seldom a large one."""
    kinds: tuple[Callable[[], Json], ...] = (
        lambda: None,
        lambda: random.choice((True, False)),
        lambda: random.choice(NUMBERS),
        lambda: random.choice(TEXTS),
        lambda: random.choice(QUANTITIES),
        lambda: random.choice(TIMES),
        list,
        dict,
        lambda: [nasty(random) for _ in range(random.randrange(3))],
        lambda: {random.choice(KEYS): nasty(random) for _ in range(random.randrange(3))},
        lambda: deep(random.choice((5, 60, 190, 300)), random.choice(("list", "object"))),
        lambda: (random.choice(TEXTS[1:]) * random.choice((1, 1, 100, 10_000)))[:100_000],
    )
    return random.choices(kinds, weights=(3, 3, 5, 6, 2, 2, 2, 2, 2, 2, 0.3, 0.3))[0]()


def deep(levels: int, kind: str) -> Json:
    value: Json = 1
    for _ in range(levels):
        value = [value] if kind == "list" else {"a": value}
    return value


def places(value: Json, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all values below `value`."""
    found: list[tuple[Any, ...]] = []
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        found.append((*path, key))
        if len(path) < 30:
            found += places(one, (*path, key))
    return found


def mutate(random: Random, value: Json) -> Json:
    """Change one place of an object, in it."""
    paths = places(value)
    if not paths:
        return nasty(random)
    *above, last = random.choice(paths)
    holder = value
    for key in above:
        holder = holder[key]
    match random.randrange(6):
        case 0:
            del holder[last]
        case 1 if isinstance(holder, dict):
            holder[random.choice(KEYS)] = nasty(random)
        case 2 if isinstance(holder, dict):
            holder[random.choice(KEYS)] = holder.pop(last)
        case 3 if isinstance(holder, list):
            holder.extend([holder[last]] * random.choice((1, 3, 50)))
        case 4:
            holder[last] = random.choice((QUANTITIES, TIMES, NAMES, NUMBERS, SELECTORS, TEXTS))[0]
        case _:
            holder[last] = nasty(random)
    return value
