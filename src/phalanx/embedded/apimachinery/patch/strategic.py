"""Strategic merge patch: a merge patch that merges lists item by item, by the key that identifies an item.

A list whose schema has `patchStrategy: merge` is merged item by item: scalars as a set, and objects by their
`patchMergeKey`. A patch may contain directives for changes that a plain value cannot express: `$patch: replace|delete`
in an object or an item, `$deleteFromPrimitiveList/F`, `$setElementOrder/F` and `$retainKeys`. Every other list is
replaced.

The items of a merged list are in the order of `$setElementOrder`, or, without it, in the order of the patch's items.
Items that are only in the server's list keep their relative order. Such an item comes after the patch's items, unless
it preceded one of them in the old list. For this reason a finalizer that a patch adds becomes the first in the list.

The functions do not change their arguments. The result shares with the arguments all parts that the patch does not
change. Source of the rules: k8s.io/apimachinery/pkg/util/strategicpatch/patch.go and the design document
strategic-merge-patch.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.json import encode

from phalanx.embedded.apimachinery.meta.status import StatusError, bad_request
from phalanx.embedded.apimachinery.patch.json_patch import go_kind
from phalanx.embedded.apimachinery.schema.schema import Type

DIRECTIVE = "$patch"
RETAIN_KEYS = "$retainKeys"
DELETE_FROM = "$deleteFromPrimitiveList/"
ELEMENT_ORDER = "$setElementOrder/"

Json = dict[str, Any]


def strategic_merge(current: Json, patch: object, kind: Type | None) -> Json:
    """Return `current` with the patch merged into it. Raises StatusError 400, 422 or 500, like kube-apiserver."""
    if not isinstance(patch, dict):
        raise bad_request(f"json: cannot unmarshal {go_kind(patch)} into Go value of type map[string]interface {{}}")
    return _merge_object(current, patch, kind)


def _merge_object(current: Json, patch: Json, kind: Type | None) -> Json:
    match patch.get(DIRECTIVE):
        case None:
            pass
        case "replace":
            return {key: value for key, value in patch.items() if key != DIRECTIVE}
        case "delete":
            return {}
        case other:
            raise _failure(f"unknown patch type: {go_text(other)} in map: {go_text(patch)}")
    result = _retained(current, patch)
    ordered = {key.removeprefix(ELEMENT_ORDER) for key in patch if key.startswith(ELEMENT_ORDER)}
    for name in ordered:
        _merge_ordered(result, patch, name, _child(kind, name))
    for key, value in patch.items():
        if key.startswith("$"):
            if key.startswith(DELETE_FROM):
                _delete_from_primitive_list(result, key.removeprefix(DELETE_FROM), value)
        elif key not in ordered:
            _merge_field(result, key, value, kind)
    return result


def _child(kind: Type | None, key: str) -> Type | None:
    """Return the type of a field; None if the schema does not define the field, so that lists below it are not merged
    by key."""
    return kind.child(key) if kind is not None else None


def _merge_field(result: Json, key: str, value: object, kind: Type | None) -> None:
    if value is None:
        result.pop(key, None)
        return
    old = result.get(key)
    if isinstance(value, dict) and isinstance(old, dict):
        below = _child(kind, key)
        replaced = below is not None and "replace" in below.patch_strategy
        result[key] = value if replaced else _merge_object(old, value, below)
    elif isinstance(value, list) and isinstance(old, list):
        result[key] = _merge_list(old, value, _child(kind, key))
    elif isinstance(value, dict | list):
        kept = _fresh(value)
        if kept is not _GONE:
            result[key] = kept
    else:
        result[key] = value


def _retained(current: Json, patch: Json) -> Json:
    """Return a copy with only the fields that `$retainKeys` names."""
    if RETAIN_KEYS not in patch:
        return dict(current)
    names = patch[RETAIN_KEYS]
    set_here = {key for key, value in patch.items() if value is not None and not key.startswith("$")}
    if not isinstance(names, list) or not all(key in names for key in set_here):
        raise bad_request("invalid patch format of retainKeys")
    return {key: value for key, value in current.items() if key in names}


# --- lists -------------------------------------------------------------------------------------------------------


def _merge_list(old: list[Any], patch: list[Any], kind: Type | None, order: list[object] | None = None) -> list[object]:
    if kind is None or "merge" not in kind.patch_strategy:
        return patch
    if not old and not patch:
        return old
    if not _all_objects(old, patch):
        merged = list(dict.fromkeys([*old, *patch]))
        return _ordered(merged, old, patch if order is None else order, _same)
    key = kind.merge_key
    if not key:
        raise _failure(f"cannot merge lists without merge key for {kind.items!r}")
    merged = _merge_items(old, patch, kind)
    return _ordered(merged, old, patch if order is None else order, lambda item: item.get(key))


def _all_objects(old: list[object], patch: list[object]) -> bool:
    """Return True if all items of both lists are objects, and False if all are scalars. Raises StatusError for mixed
    items or for lists of lists, which cannot be merged."""
    items = [*old, *patch]
    kinds = {type(item) for item in items}
    if kinds == {dict}:
        return True
    if items and isinstance(items[0], list):
        raise StatusError(422, "Invalid", "list of lists is not supported", details={})
    if kinds & {dict, list}:
        raise _failure(f"list element types are not identical: {go_text([old, patch])}")
    return False


def _merge_items(old: list[Json], patch: list[Json], kind: Type) -> list[Json]:
    key, plain, gone, replaced = kind.merge_key, list[Json](), set[Any](), False
    for item in patch:
        match item.get(DIRECTIVE):
            case None:
                plain.append(item)
            case "delete":
                gone.add(_key_of(item, key))
            case "replace":
                replaced = True
            case "merge":
                raise _failure("merging lists cannot yet be specified in the patch")
            case other:
                raise _failure(f"unknown patch type: {go_text(other)} in map: {go_text(item)}")
    if replaced:
        return plain
    merged = [one for one in old if one.get(key) not in gone]
    places = _places(merged, lambda item: item.get(key))
    for item in plain:
        value = _key_of(item, key)
        if value in places:
            merged[places[value]] = _merge_object(merged[places[value]], item, kind.items)
        else:
            places[value] = len(merged)
            merged.append(_fresh(item))
    return merged


def _key_of(item: Json, key: str) -> object:
    if key not in item:
        raise _failure(f"map: {go_text(item)} does not contain declared merge key: {key}")
    if isinstance(item[key], dict | list):
        raise bad_request(f"map: {go_text(item)} has no scalar as its merge key: {key}")
    return item[key]


def _same(item: object) -> object:
    return item


def _ordered(merged: list[Any], old: list[object], order: list[object], key: Callable[[Any], Any]) -> list[object]:
    """Return the merged items in their final order. Items that `order` names are in that order, and the other items
    stay in the order of the old list; the two sequences are interleaved."""
    wanted = _places(order, key)
    named: list[Any] = []
    others: list[Any] = []
    for item in merged:
        (named if key(item) in wanted else others).append(item)
    if len(named) > 1:
        named.sort(key=lambda item: wanted[key(item)])
    if not others:
        return named
    before = _places(old, key)
    others.sort(key=lambda item: before.get(key(item), -1))
    woven: list[Any] = []
    at = 0  # the items of `others` before this index are already in `woven`
    for item in named:
        place = before.get(key(item))
        while at < len(others) and place is not None and before.get(key(others[at]), place) < place:
            woven.append(others[at])
            at += 1
        woven.append(item)
    return woven + others[at:]


def _places(items: list[Any], key: Callable[[Any], Any]) -> dict[object, int]:
    """Return a mapping from each key to the index of the first item with that key."""
    places: dict[Any, int] = {}
    for place, item in enumerate(items):
        places.setdefault(key(item), place)
    return places


def _merge_ordered(result: Json, patch: Json, name: str, kind: Type | None) -> None:
    """Apply `$setElementOrder/name`: merge the list `name`, if the patch contains it, and then sort its items by the
    directive."""
    order, old, new = patch[ELEMENT_ORDER + name], result.get(name), patch.get(name)
    if not isinstance(order, list) or not isinstance(new or [], list) or not _can_order(order, old, new):
        raise bad_request("invalid patch format of setElementOrder list")
    if new is not None:
        _check_order(new, order, kind.merge_key if kind is not None else "")
    if old is None and new is None:
        return
    if old is None:
        new = _fresh(new)
    result[name] = _merge_list(old or [], new or [], kind, order)


def _can_order(order: list[object], *lists: list[object] | None) -> bool:
    """Return True if the elements of `order` have the same form as the items of the lists: all objects, or all
    scalars."""
    of_objects = any(isinstance(item, dict) for items in lists for item in items or ())
    return all(isinstance(item, dict) == of_objects and not isinstance(item, list) for item in order)


def _check_order(items: list[object], order: list[object], key: str) -> None:
    """Check that every item of the patch is in the list `$setElementOrder`, and that both lists have the same order."""
    wanted = [item.get(key) if isinstance(item, dict) else item for item in order]
    have = [
        _key_of(item, key) if isinstance(item, dict) else item
        for item in items
        if not (isinstance(item, dict) and DIRECTIVE in item)
    ]
    rest = iter(wanted)
    if not all(item in rest for item in have):
        raise _failure(
            f"The order in patch list:\n{go_text(items)}\n doesn't match $setElementOrder list:\n{go_text(order)}\n"
        )


def _delete_from_primitive_list(result: Json, name: str, gone: object) -> None:
    if not isinstance(gone, list):
        raise bad_request("invalid patch format of primitive list")
    if isinstance(result.get(name), list):
        texts = {encode(item) for item in gone}
        result[name] = [item for item in result[name] if encode(item) not in texts]


_GONE = object()


def _fresh(value: object) -> Any:
    """Return a value of the patch without its nulls and directives. The caller uses the function for a field that the
    object does not have yet, so that there is nothing to remove or to sort."""
    if isinstance(value, dict):
        if DIRECTIVE in value:
            return _GONE
        kept = {}
        for key, item in value.items():
            if item is None or key[:1] == "$":
                continue
            if isinstance(item, dict | list):
                item = _fresh(item)
                if item is _GONE:
                    continue
            kept[key] = item
        return kept
    if isinstance(value, list):
        return [kept for item in value if (kept := _fresh(item)) is not _GONE]
    return value


def _failure(message: str) -> StatusError:
    """Return an error 500, as kube-apiserver does for an error without a reason."""
    return StatusError(500, "", message)


def go_text(value: object) -> str:
    """Return a decoded JSON value in Go's notation: `map[image:i3]`."""
    match value:
        case dict():
            return "map[" + " ".join(f"{key}:{go_text(value[key])}" for key in sorted(value)) + "]"
        case list():
            return "[" + " ".join(map(go_text, value)) + "]"
        case bool():
            return str(value).lower()
        case None:
            return "<nil>"
        case _:
            return str(value)
