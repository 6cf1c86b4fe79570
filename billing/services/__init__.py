"""What writes in billing: wallets and holds, settlement, attempts. Every call is safe to repeat."""
