"""The protobuf format of Kubernetes' objects.

messages   messages, from the published definitions and these numbers; which number a field has in its message
           (`field_numbers.txt`)
convert    objects into messages and back
protobuf   the envelopes of objects, lists and events
"""
