"""Membership inference: tell the members of the training data from other texts."""
