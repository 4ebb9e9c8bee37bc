"""One file per kind of spec. ``planner.spec.types`` gathers them."""
