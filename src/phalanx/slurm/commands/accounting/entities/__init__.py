"""The entities that sacctmgr adds, changes and deletes.

words         parse names and values, and check the user's right to change an entity
wckeys        keys that users may name with --wckey
users         users and the coordinators of accounts; users in accounts
qos           QOS
columns       the columns of all lists
accounts      accounts of the tree; dump and load
listed        which rows and columns a list has
"""
