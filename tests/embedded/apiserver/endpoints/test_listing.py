"""Lists: selectors, versions to come, and tokens to go on with."""

from __future__ import annotations

import base64
import json

import pytest

from phalanx.embedded.apimachinery.meta import selectors
from phalanx.embedded.apimachinery.meta.status import StatusError
from phalanx.embedded.apimachinery.schema import formats
from tests.embedded.apiserver.process import ServerProcess

MAPS = "/api/v1/namespaces/default/configmaps"

INTEGER = "for 'Gt', 'Lt' operators, the value must be an integer"

LABEL_VALUE = formats.label_value("-x")[0]


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a=1,", "found '', expected: identifier after ','"),
        ("a===", "unable to parse requirement: found '=', expected: identifier"),
        ("a=(b)", "unable to parse requirement: found '(', expected: identifier"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        ("=1", "found '=', expected: !, identifier, or 'end of string'"),
        ("a in (b) c", "found 'c', expected: ',' or 'end of string'"),
        ("a/b/c", f'unable to parse requirement: <nil>: Invalid value: "a/b/c": {formats.qualified_name("a/b/c")[0]}'),
        ("/x", 'unable to parse requirement: <nil>: Invalid value: "/x": prefix part must be non-empty'),
        ("a>b", f'unable to parse requirement: values[0]: Invalid value: "b": {INTEGER}'),
        ("a in (ok, -x)", f'unable to parse requirement: values[0][a]: Invalid value: "-x": {LABEL_VALUE}'),
        ("a in (-x, -y)", f'unable to parse requirement: [values[0][a]: Invalid value: "-x": {LABEL_VALUE}, '
                          f'values[1][a]: Invalid value: "-y": {LABEL_VALUE}]'),
    ],
)  # fmt: skip
def test_label_selectors_that_do_not_parse(selector: str, message: str) -> None:
    with pytest.raises(StatusError) as caught:
        selectors.labels(selector)
    assert (caught.value.code, caught.value.message) == (400, message)


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ("metadata.name=a=b", "unescaped character in value: 61"),
        (r"metadata.name=\x", r"invalid escape sequence: \x"),
    ],
)
def test_field_selector_with_a_wrong_value_is_refused(selector: str, message: str) -> None:
    with pytest.raises(StatusError) as caught:
        selectors.fields(selector)
    assert caught.value.message == f"invalid field selector: {message}"


def test_a_get_may_ask_for_a_version_that_does_not_exist_yet(api_server: ServerProcess) -> None:
    answer = api_server.ask("GET", "/api/v1/namespaces/default?resourceVersion=99999999999")
    assert (answer.code, answer.body["details"]["retryAfterSeconds"]) == (504, 1)


def continuing(start: str) -> str:
    text = json.dumps({"v": "meta.k8s.io/v1", "rv": 1, "start": start}).encode()
    return base64.urlsafe_b64encode(text).decode().rstrip("=")


@pytest.mark.parametrize(
    ("token", "said"),
    [
        ("zz", "invalid character '\u00cf' looking for beginning of value"),
        ("a*b", "illegal base64 data at input byte 1"),
        ("x", "illegal base64 data at input byte 0"),
        ("e30", "server does not recognize this encoded version "),
        ("W10", "json: cannot unmarshal array into Go value of type storage.continueToken"),
        (continuing(""), "encoded start key empty (version meta.k8s.io/v1)"),
        (continuing("../secrets/a"), "../secrets/a"),  # keys are paths, and stay below what is listed
        (continuing("default/"), "default/"),
    ],
)
def test_a_continue_token_that_no_list_gave_out(api_server: ServerProcess, token: str, said: str) -> None:
    answer = api_server.ask("GET", f"{MAPS}?continue={token}")
    assert answer.code == 400
    assert answer.body["message"] == f"invalid continue token: continue key is not valid: {said}"


def test_a_continue_token_of_a_version_to_come_is_answered_as_that_version_is(api_server: ServerProcess) -> None:
    token = (
        base64.urlsafe_b64encode(b'{"v":"meta.k8s.io/v1","rv":99999999999,"start":"default/a"}').decode().rstrip("=")
    )
    answer = api_server.ask("GET", f"{MAPS}?continue={token}&limit=1")
    assert (answer.code, answer.body["reason"]) == (504, "Timeout")
    assert [one["reason"] for one in answer.body["details"]["causes"]] == ["ResourceVersionTooLarge"]
    assert answer.body["message"].startswith("Timeout: Too large resource version: 99999999999, current: ")
