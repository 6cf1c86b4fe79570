"""Sign-in, and the page of API keys."""
