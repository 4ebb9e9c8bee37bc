"""The planner over HTTP: a versioned REST interface under ``/api/v1``, metrics and health."""
