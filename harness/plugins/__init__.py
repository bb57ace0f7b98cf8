"""Find attacks, read their declarations and parameter schemas, write scaffolds; never import an attack."""
