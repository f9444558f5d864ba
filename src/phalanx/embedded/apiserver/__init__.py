"""The API server. A request passes the rooms from bottom to top: parsed, identified, admitted, stored, answered.

apimachinery   what every API is made of: types, metadata, expressions, patches; no storage, no network
storage        objects and their history on disk, and watches over them
auth           who asks, and what they may do
transport      requests and answers as bytes: HTTP, JSON, Protobuf, tables
registry       the kinds that are served, built in and custom
admission      what may change or refuse a write
endpoints      the verbs: read, list, watch, create, update, patch, delete, and subresources
app            the way of one request
server         the process: its data directory, its socket, its start and end
"""
