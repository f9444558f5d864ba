"""What every API is made of, as k8s.io/apimachinery is for Kubernetes. Pure: plain objects in, plain objects out.

schema        types of fields, their values, and objects that follow them
meta          what all kinds share: errors, ObjectMeta, selectors
expressions   JSONPath and CEL
patch         JSON patch, merge patch, strategic merge patch, server-side apply
"""
