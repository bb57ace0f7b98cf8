"""The widgets of the screens. Each shows one part of a snapshot."""
