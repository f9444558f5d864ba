"""The entities that sacctmgr adds, changes and deletes.

words         parse names and values, and check the user's right to change an entity
accounts      accounts of the tree
associations  users in accounts
wckeys        keys that users may name with --wckey
users         users and the coordinators of accounts
qos           QOS
columns       the columns of all lists
files         dump and load
listed        which rows and columns a list has
"""
