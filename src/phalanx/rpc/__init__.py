"""gRPC: import the library, and build message classes from tables of fields.

library   gRPC without its handlers of fork(2)
messages  the messages of a service as classes of the protobuf library
"""
