"""The API server. It parses each request, authenticates and authorizes its user, runs admission, stores the written
object and sends the response.

storage        objects and their history on disk, and watches over them
auth           authentication and authorization
transport      requests and answers as bytes: HTTP, JSON, Protobuf, tables
registry       the served kinds, built-in and custom
admission      plug-ins, policies and webhooks that change or refuse a write
endpoints      the verbs: read, list, watch, create, update, patch, delete, and subresources
app            the path of one request
server         the process: its data directory, its socket, its start and end
"""
