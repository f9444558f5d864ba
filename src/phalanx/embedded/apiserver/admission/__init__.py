"""What may change or refuse a write, after authorization and before storage.

limit_ranger        LimitRanges: defaults and bounds
resource_quota      ResourceQuotas
service_account     the account of a pod
service_addresses   addresses of Services
chain               the built-in plug-ins, in their order
pod_security        Pod Security Standards
policies            admission policies of the cluster
webhook_call        one call of a webhook
webhooks            webhooks of a configuration, in their order
"""
