"""The newest snapshot of a Delta or Iceberg table."""
