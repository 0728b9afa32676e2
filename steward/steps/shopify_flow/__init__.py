"""The tasks of the store product's flows: what they are, their order, what they see (imports 8)."""
