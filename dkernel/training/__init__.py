"""One fit: choice, grids, cells, plan, stages, search, updates."""
