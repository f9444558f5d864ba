"""The protobuf format of Kubernetes' objects.

messages   the message classes, made from the published definitions and the field numbers in `field_numbers.txt`
convert    objects into messages and back
protobuf   the envelopes of objects, lists and events
"""
