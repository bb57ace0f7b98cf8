"""One screen a module, with its style in the .tcss file beside it."""
