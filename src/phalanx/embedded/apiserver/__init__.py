"""The API server. It parses each request, authenticates and authorizes its user, runs admission, stores the written
object and sends the response.

storage        the objects and their history on disk, and the watches
auth           authentication and authorization
transport      the formats of requests and responses: HTTP, JSON, Protobuf, tables
registry       the served kinds, built-in and custom
admission      plug-ins, policies and webhooks that change or refuse a write
endpoints      the handlers: get, list, watch, create, update, patch, delete, and subresources
app            handles each request step by step
sockets        the listening socket and its connections
server         the process: its data directory, its start and its end
"""
