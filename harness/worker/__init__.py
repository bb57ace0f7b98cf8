"""The process that a plugin runs in, and the only importer of plugin code."""
