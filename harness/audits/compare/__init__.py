"""The comparison of targets, such as before and after unlearning, on the same sequences."""
