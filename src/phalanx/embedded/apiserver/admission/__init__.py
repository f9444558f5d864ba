"""Admission: the steps that may change or refuse a write, after its authorization and before it is stored.

limit_ranger        LimitRanges: defaults and bounds
resource_quota      ResourceQuotas
service_account     the account of a pod
service_addresses   addresses of Services
volcano             what Volcano's webhooks write and refuse
chain               the built-in plug-ins, in their order
pod_security        Pod Security Standards
policies            admission policies of the cluster
hooks               webhooks of the cluster's configurations
"""
