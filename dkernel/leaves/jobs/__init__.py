"""Jobs that are given to a cluster: their driver, and the commands that follow and end them."""
