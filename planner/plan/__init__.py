"""The plan: one readable pipeline from a deployment to a frozen, content-addressed value."""
