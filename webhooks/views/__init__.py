"""Pages of webhooks: endpoints, and what became of each delivery."""
