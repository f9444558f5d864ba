"""Admission: the steps that may change or refuse a write, after its authorization and before it is stored.

limit_ranger        LimitRanges: defaults and limits
resource_quota      ResourceQuotas
service_account     the account of a pod
service_addresses   addresses of Services
volcano             the defaults and checks of Volcano's webhooks
chain               the built-in plug-ins, in their order
pod_security        Pod Security Standards
policies            admission policies of the cluster
hooks               admission webhooks
"""
