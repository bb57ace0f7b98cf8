"""The widgets of the screens; each shows one part of a snapshot."""
