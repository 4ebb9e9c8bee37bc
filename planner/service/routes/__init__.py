"""One file of routes for each kind of thing."""
