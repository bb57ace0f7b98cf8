"""The book audit: find the passages of long texts that a model returns (Cooper et al. 2025)."""
