"""The functions by which the engine uses the modules about kinds: schema, admission, field ownership, tables and
conversion.

The *engine* is the part of the server that handles all kinds alike: the store, the watches, the pipelines of writes,
and HTTP. The engine uses the rules of single kinds only through the functions of this folder. So the modules about
kinds do not depend on the engine, and this folder shows all connections between the engine and these modules.

committed    read access of admission plug-ins to the stored objects
knowledge    schema, admission and validation of an object that is written
patching     patches of an object, and the ownership of its fields
tables       objects as Tables
known_kinds  the kinds of Kubernetes, including those that this server does not serve
discovery    the discovery documents
"""
