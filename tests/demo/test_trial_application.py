"""`demo/trial.py`: the manifests of one application."""

from __future__ import annotations

from phalanx.demo.trial import access_secret, driver


def test_both_acts_have_the_same_manifests_but_for_their_queue() -> None:
    one, other = driver("app-1", "demo", "pod-by-pod", "x"), driver("app-1", "demo", "gangs", "x")
    assert one["metadata"]["labels"].pop("phalanx.dev/queue") != other["metadata"]["labels"].pop("phalanx.dev/queue")
    assert one == other


def test_the_token_reaches_a_driver_through_a_secret_only() -> None:
    secret = access_secret("demo", "https://x", "s3cret", "CA")
    assert secret["stringData"]["token"] == "s3cret"
    assert "s3cret" not in str(driver("app-1", "demo", "gangs", "x"))
