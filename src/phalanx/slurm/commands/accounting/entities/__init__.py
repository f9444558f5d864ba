"""The entities that sacctmgr lists, adds, changes and deletes.

words         parse names and values, and check the caller's right to change an entity
wckeys        add and delete WCKeys, which users may name with --wckey
users         add, change and delete users, their associations, and coordinators of accounts
qos           add, change and delete QOS
columns       the columns of `sacctmgr list`
accounts      add, change and delete accounts; dump and load the tree of accounts
listed        run `sacctmgr list`
"""
