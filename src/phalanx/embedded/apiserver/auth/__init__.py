"""Authentication and authorization.

private          files that only their owner may read
authority        certificate authorities and certificates
certificates     the certificates of a server
account_tokens   tokens of service accounts
rbac             roles and their rules
authorization    decide whether a user may make a request
authentication   find the user of a token or certificate
impersonation    users who act as other users
reviews          reviews of access and of tokens, as API kinds
"""
