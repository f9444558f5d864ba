"""The tree of accounts, and fair shares in it."""
