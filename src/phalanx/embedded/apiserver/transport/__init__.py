"""The formats and protocols of requests and responses.

protobuf      Protobuf bodies
struct_order  the order in which Go prints fields
go_json       Go's messages about JSON; limits on the depth and size of a body
negotiation   media types
request       a request and its response
options       query parameters and options of a write
websocket     WebSocket, for watches and for connections to nodes
tables        the tables that `kubectl get` prints
http          HTTP connections
"""
