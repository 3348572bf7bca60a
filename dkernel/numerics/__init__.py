"""Numbers in memory: compiled loops, linear algebra in blocks, random streams, sparse rows and values of objects."""
