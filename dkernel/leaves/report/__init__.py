"""The report of a fit or an evaluation: one HTML page that holds everything it shows and loads nothing."""
