"""What changes the catalog: ``loading`` (the data file), ``rotation`` (an operator), ``sla`` (health samples)."""
