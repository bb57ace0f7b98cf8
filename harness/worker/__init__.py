"""The process that runs a plugin or an audit, and the only importer of plugin code.

Start with __main__.py; the jobs themselves are in `attack_job.py` and `audit_job.py`.
"""
