"""Tokens of service accounts. `POST serviceaccounts/NAME/token` creates a token, and the server accepts it as the user
system:serviceaccount:NAMESPACE:NAME.

A token is a JSON Web Token (RFC 7519) with the same claims as in kube-apiserver. It is signed by HMAC with SHA-256; the
key is a file in the data directory. (Kube-apiserver signs with RSA; here no other program checks the tokens.) The
server stores no tokens. A token is valid until it expires, or until its account, or the pod or secret to which it is
bound, is deleted. So at each request the server looks up the account and the bound object by their uids. A valid token
only identifies the account; roles decide what the account may do (`rbac`).

Sources: pkg/registry/core/serviceaccount/storage/token.go, pkg/serviceaccount/claims.go, ValidateTokenRequest.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import hashlib
import hmac
import secrets
import time
import uuid
from pathlib import Path
from typing import Any

import msgspec

from phalanx.embedded.apimachinery.meta.objectmeta import now_text, time_text
from phalanx.embedded.apimachinery.meta.resource import Object, Resource, User
from phalanx.embedded.apimachinery.meta.status import bad_request, conflict, invalid, invalid_value, not_found
from phalanx.embedded.apiserver.auth.authority import write_private
from phalanx.embedded.apiserver.storage.store import Store

GROUP = "authentication.k8s.io"
TOKEN_REQUEST = Resource(
    group=GROUP,
    version="v1",
    kind="TokenRequest",
    plural="tokenrequests",
    singular="tokenrequest",
    namespaced=True,
    verbs=("create",),
    schema_name="io.k8s.api.authentication.v1.TokenRequest",
)
ISSUER = "https://kubernetes.default.svc.cluster.local"
_ACCOUNTS = ("", "serviceaccounts")
_BOUND = {"Pod": "pods", "Secret": "secrets", "Node": "nodes"}
_DEFAULT_S, _LEAST_S, _MOST_S = 3600, 600, 1 << 32
# the longest time for which a token may be valid, like --service-account-max-token-expiration
_LONGEST_S = 366 * 24 * 3600
_HEADER = {"alg": "HS256", "typ": "JWT"}


class AccountTokens:
    """Creates and checks tokens. The key is created at its first use and kept in a file, so that tokens stay valid
    after a restart."""

    def __init__(self, key: Path, store: Store) -> None:
        self._path, self._store = key, store
        self._key = b""

    def issue(self, namespace: str, name: str, request: Object) -> Object:
        """Return the TokenRequest with a new token. Raises `StatusError` 404, 409 or 422. Raises `StatusError` 400 if
        the token is to be bound to an object of an unknown kind."""
        asked = (request.get("metadata") or {}).get("name")
        if asked and asked != name:
            why = "must match the service account name if specified"
            raise invalid(GROUP, "TokenRequest", name, [invalid_value("metadata.name", asked, why)])
        account = self._store.get(_ACCOUNTS, namespace, name)
        if account is None:
            raise not_found("", "serviceaccounts", name)
        spec = _filled(request.get("spec") or {})
        now_s = int(time.time())
        ends_s = now_s + spec["expirationSeconds"]
        about: Object = {"namespace": namespace, "serviceaccount": _named(account.obj)}
        if reference := spec.get("boundObjectRef"):
            about[reference["kind"].lower()] = _named(self._bound(namespace, name, reference))
        claims = {
            "iss": ISSUER,
            "sub": f"system:serviceaccount:{namespace}:{name}",
            "aud": spec["audiences"],
            "iat": now_s,
            "nbf": now_s,
            "exp": ends_s,
            "jti": str(uuid.uuid4()),
            "kubernetes.io": about,
        }
        uid = account.obj["metadata"]["uid"]
        meta = {"name": name, "namespace": namespace, "uid": uid, "creationTimestamp": now_text()}
        ends = time_text(dt.datetime.fromtimestamp(ends_s, dt.UTC))
        status = {"token": self._signed(claims), "expirationTimestamp": ends}
        return request | {"metadata": meta, "spec": spec, "status": status}

    def user(self, token: bytes) -> User | None:
        """Return the user of the token; None if this server did not sign it, or if it was altered, has expired, or is
        for another audience."""
        claims = self._claims(token)
        if claims is None or not claims["nbf"] <= time.time() < claims["exp"] or ISSUER not in claims["aud"]:
            return None
        about = claims["kubernetes.io"]
        namespace, account = about["namespace"], about["serviceaccount"]
        held = [("serviceaccounts", account), *((_BOUND[kind], about[kind.lower()]) for kind in _held(about))]
        if not all(self._lives(plural, namespace, one) for plural, one in held):
            return None
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
        return User(name=claims["sub"], uid=account["uid"], groups=groups)

    def _bound(self, namespace: str, account: str, reference: Object) -> Object:
        """Return the object to which a token will be bound. The token becomes invalid when this object is deleted."""
        kind, wanted = reference["kind"], reference.get("uid")
        space = "" if kind == "Node" else namespace
        found = self._store.get(("", _BOUND[kind]), space, reference.get("name", ""))
        if found is None:
            raise not_found("", _BOUND[kind], reference.get("name", ""))
        if kind == "Pod" and found.obj["spec"].get("serviceAccountName") != account:
            why = "to pod running with different serviceaccount name."
            raise bad_request(f'cannot bind token for serviceaccount "{account}" {why}')
        if wanted and wanted != found.obj["metadata"]["uid"]:
            why = f"the UID in the bound object reference ({wanted}) does not match the UID in record. "
            why += "The object might have been deleted and then recreated"
            raise conflict("", kind, reference["name"], why)
        return found.obj

    def _lives(self, plural: str, namespace: str, named: Object) -> bool:
        found = self._store.get(("", plural), "" if plural == "nodes" else namespace, named["name"])
        return found is not None and found.obj["metadata"]["uid"] == named["uid"]

    def _signed(self, claims: Object) -> str:
        text = _text(msgspec.json.encode(_HEADER)) + "." + _text(msgspec.json.encode(claims))
        return text + "." + _text(self._signature(text.encode()))

    def _claims(self, token: bytes) -> Any:
        """Return the claims of a token that this server has signed. The claims are trusted, because only this server
        has the key."""
        text, _, signature = token.rpartition(b".")
        try:
            if not hmac.compare_digest(_raw(signature), self._signature(text)):
                return None
            return msgspec.json.decode(_raw(text.partition(b".")[2]))
        except (binascii.Error, ValueError, msgspec.DecodeError):
            return None

    def _signature(self, text: bytes) -> bytes:
        if not self._key:
            if not self._path.exists():
                self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                write_private(self._path, secrets.token_hex(32) + "\n")
            self._key = self._path.read_bytes().strip()
        return hmac.new(self._key, text, hashlib.sha256).digest()


def _filled(spec: Object) -> Object:
    """Return the spec of a TokenRequest with its defaults. Raises `StatusError` 422 or 400."""
    ends_s = spec.get("expirationSeconds") or _DEFAULT_S
    if not _LEAST_S <= ends_s <= _MOST_S:
        limit = "less than 10 minutes" if ends_s < _LEAST_S else "larger than 2^32 seconds"
        cause = invalid_value("spec.expirationSeconds", ends_s, f"may not specify a duration {limit}")
        raise invalid(GROUP, "TokenRequest", "", [cause])
    if (reference := spec.get("boundObjectRef")) is not None and reference.get("kind") not in _BOUND:
        group, _, version = reference.get("apiVersion", "").rpartition("/")
        kind = f"{group}/{version}, Kind={reference.get('kind', '')}"
        raise bad_request(f"cannot bind token to object of type {kind}")
    filled = {"expirationSeconds": min(ends_s, _LONGEST_S), "audiences": spec.get("audiences") or [ISSUER]}
    return {"boundObjectRef": None} | spec | filled


def _held(about: Object) -> list[str]:
    return [kind for kind in _BOUND if kind.lower() in about]


def _named(obj: Object) -> Object:
    return {"name": obj["metadata"]["name"], "uid": obj["metadata"]["uid"]}


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _raw(text: bytes) -> bytes:
    return base64.urlsafe_b64decode(text + b"=" * (-len(text) % 4))
