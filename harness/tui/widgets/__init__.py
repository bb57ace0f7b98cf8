"""What screens are made of: each widget shows one thing that a snapshot holds."""
