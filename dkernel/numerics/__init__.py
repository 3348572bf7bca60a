"""Numbers in memory: compiled loops, tiles, linear algebra in blocks, random streams, the checks of a block."""
