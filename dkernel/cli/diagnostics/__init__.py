"""Facts about hosts, memory and running jobs."""
