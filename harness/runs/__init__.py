"""The life of a run: launched, supervised, stored, watched, resumed; it never imports a plugin or torch."""
