"""What keeps a cluster, or this machine, from doing its work: connections, versions, what its processes lack."""
