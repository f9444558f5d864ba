"""What a request asks for, done.

parts          where storage and transport meet the knowledge of kinds
answers        objects as answers
write          create, update, patch
delete         delete, with grace, propagation and finalizers
listing        get, list and watch
subresources   what is beneath an object: logs, scale, binding, eviction
public         version, health, discovery, OpenAPI
definitions    definitions, which change what is served
bootstrap      what exists from the first start
"""
