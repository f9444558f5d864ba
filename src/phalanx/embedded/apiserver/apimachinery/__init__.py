"""What every API is made of, as k8s.io/apimachinery is for Kubernetes. Pure, but for the fair
queue and the connections: plain objects in, plain objects out.

caching       results kept by what users write, within bounds
fair_queue    turns of the event loop, shared fairly between users
connections   who has how many of them, and which goes where they are too many
limits        how deep and how large what one user sends may be
schema        types of fields, their values, and objects that follow them
meta          what all kinds share: errors, ObjectMeta, selectors
expressions   JSONPath and CEL
patch         JSON patch, merge patch, strategic merge patch, server-side apply
"""
