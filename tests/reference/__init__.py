"""The pages of docs/reference/ that are written from the code, and committed so that a clone has them."""
