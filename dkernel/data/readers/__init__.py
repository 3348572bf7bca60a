"""One module for each input format, and the text and array reading that they share."""
