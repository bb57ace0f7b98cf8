"""The process that runs a plugin or an audit, and the only importer of plugin code.

Start with __main__.py; the jobs themselves are `harness/jobs/<kind>/worker.py`.
"""
