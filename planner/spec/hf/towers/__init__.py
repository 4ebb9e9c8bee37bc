"""Readers of towers, one file a family; being here is the registration."""
