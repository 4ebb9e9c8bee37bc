"""The page: what the interface serves, for people with a browser."""
