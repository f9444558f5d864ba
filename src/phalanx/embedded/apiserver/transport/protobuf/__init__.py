"""Kubernetes' Protobuf: `fields` (numbers of fields, by kind), `protobuf` (bodies into objects)."""
