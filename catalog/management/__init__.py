"""Management commands of the catalog."""
