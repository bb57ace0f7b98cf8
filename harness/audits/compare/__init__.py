"""What changed in memorization between targets, such as before and after unlearning, on the same sequences."""
