"""CertificateSigningRequests: stored for signers that a user runs; this server does not sign them. The server writes
the requesting user, which clients cannot change. Source: pkg/registry/certificates/certificates, pkg/apis/certificates
(v1 defaults, validation).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping

from cryptography import x509

from phalanx.embedded.apimachinery.meta.resource import Object, User
from phalanx.embedded.apimachinery.meta.status import Cause, forbidden_field, invalid_value, required
from phalanx.embedded.apimachinery.schema import formats
from phalanx.embedded.apiserver.registry.kinds.checks import Found, formatted
from phalanx.embedded.apiserver.registry.kinds.generation import SpecAndStatus

GROUP = "certificates.k8s.io"
_SHORTEST_S = 600


def ask_as(obj: Object, user: User) -> None:
    """Write the requesting user into a new request, whatever it contains."""
    spec = obj.setdefault("spec", {})
    for field, value in (("username", user.name), ("uid", user.uid), ("groups", list(user.groups))):
        spec.pop(field, None)
        if value:
            spec[field] = value


class SigningRequestStrategy(SpecAndStatus):
    """`certificatesigningrequests.certificates.k8s.io`."""

    def validate(self, obj: Object) -> list[Cause]:
        found: Found = []
        spec = obj["spec"]
        try:
            x509.load_pem_x509_csr(base64.b64decode(spec.get("request") or ""))
        except (ValueError, binascii.Error):
            found.append(
                invalid_value("spec.request", spec.get("request") or "", "PEM block type must be CERTIFICATE REQUEST")
            )
        if not spec.get("usages"):
            found.append(required("spec.usages"))
        if not (signer := spec.get("signerName")):
            found.append(required("spec.signerName"))
        else:
            formatted(found, "spec.signerName", signer, formats.domain_path)
        if (lifetime_s := spec.get("expirationSeconds")) is not None and lifetime_s < _SHORTEST_S:
            found.append(
                invalid_value(
                    "spec.expirationSeconds",
                    lifetime_s,
                    f"may not specify a duration less than {_SHORTEST_S} seconds (10 minutes)",
                )
            )
        return found

    def selectable_names(self) -> Iterable[str]:
        return ("spec.signerName",)

    def selectable_fields(self, obj: Object) -> Mapping[str, str]:
        return {"spec.signerName": obj["spec"].get("signerName", "")}

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        return [] if obj["spec"] == old["spec"] else [forbidden_field("spec", "may not change after creation")]
