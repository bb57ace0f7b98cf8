"""One screen a module, its look in the .tcss beside it."""
