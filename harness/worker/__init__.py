"""The process that runs a plugin or an audit, and the only importer of plugin code."""
