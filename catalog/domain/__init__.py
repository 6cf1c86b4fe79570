"""Pure catalog records and rate arithmetic: no Django, no clock, no I/O."""
