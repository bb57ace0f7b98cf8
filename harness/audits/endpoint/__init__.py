"""Models behind an OpenAI-compatible API: the client, the probe before the clock starts, and exact probabilities."""
