"""Which passages of long texts a model returns, and how likely (Cooper et al. 2025)."""
