"""gRPC: the library, and messages from tables of their fields.

library   gRPC without its handlers of fork(2)
messages  the messages of a service as classes of the protobuf library
"""
