"""What writes reconciliation: files taken and read, matching, decisions, periods."""
