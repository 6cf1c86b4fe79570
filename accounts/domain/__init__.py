"""Pure rules of accounts: the shape of keys."""
