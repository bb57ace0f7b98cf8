"""Runs and workers on a Ray cluster: shipments to a node, its work, and the records that come back.

Only `executor.py` and `remote_worker.py` import Ray. The nodes run the code of this package with the rights of the
user, and Ray trusts what they send, so a cluster must be one that the user trusts. Answers do not travel all the same:
a node that is read by others, or broken into, reveals none.
"""
