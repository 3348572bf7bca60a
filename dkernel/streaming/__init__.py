"""Reading data in pieces, and the reductions over them."""
