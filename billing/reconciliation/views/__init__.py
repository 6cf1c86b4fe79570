"""Finance's pages of invoices, breaks and periods."""
