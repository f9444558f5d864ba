"""The formats and protocols of requests and responses.

protobuf      Protobuf bodies
struct_order  the order in which Go prints fields
go_json       JSON as Go reads it; how deep and how large a body may be
negotiation   media types
request       a request and its answer
options       query parameters and options of a write
websocket     watches over WebSocket
tables        what `kubectl get` prints
http          connections
"""
