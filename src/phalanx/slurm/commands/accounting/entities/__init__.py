"""What sacctmgr adds, changes and deletes.

words         names and values as they are typed; who may change what
accounts      accounts of the tree
associations  users in accounts
wckeys        keys that users may name with --wckey
users         users, and those that coordinate accounts
qos           QOS
"""
