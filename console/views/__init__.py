"""Pages that cross apps."""
