"""Commands for accounting.

sacct     jobs that ran
sacctmgr  accounts, users, QOS
sshare    shares and fair-share factors
"""
