"""The authentication and authorization of users.

authority        certificate authorities and certificates; files that only their owner may read; the certificates of a
                 server
account_tokens   tokens of service accounts
rbac             roles and their rules; decides whether a user may make a request
authentication   finds the user of a token; impersonation of other users
credentials      the certificates, tokens and kubeconfig files of a server
reviews          reviews of access and of tokens, as API kinds
"""
