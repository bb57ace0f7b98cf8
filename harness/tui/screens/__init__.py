"""The screens: one module each, with its style in the .tcss file of the same name."""
