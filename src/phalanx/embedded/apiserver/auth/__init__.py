"""Who asks, and what they may do.

private          files that only their owner reads
authority        certificate authorities and certificates
certificates     those of a server
account_tokens   tokens of service accounts
rbac             roles, and what they grant
authorization    may this user do this?
authentication   the user whose token or certificate this is
impersonation    a user who acts as another
reviews          reviews of access and of tokens, as API kinds
"""
