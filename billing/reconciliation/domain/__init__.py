"""Pure parts of reconciliation: no Django, no clock, no network; money is integers and Decimal."""
