"""Requests and answers as bytes.

go_json       JSON as Go reads it
protobuf      Protobuf bodies
bounds        how deep and how large a body may be
negotiation   media types
request       a request and its answer
options       query parameters and options of a write
websocket     watches over WebSocket
tables        what `kubectl get` prints
http          connections
"""
