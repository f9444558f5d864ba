"""The base of all API kinds, like Kubernetes' k8s.io/apimachinery. All functions are pure, except the functions of
`fair_queue` and `connections`.

caching       bounded caches with keys from users
fair_queue    share the event loop fairly between users
connections   limit the connections of each user
limits        limits on the depth and size of requests
schema        types of fields, their values, and objects that follow them
meta          parts that all kinds share: errors, ObjectMeta, selectors
expressions   JSONPath and CEL
patch         JSON patch, merge patch, strategic merge patch, server-side apply
"""
