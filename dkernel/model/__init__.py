"""What a fit is asked for and what it leaves: recipe, parameters, local machines, the model, its file."""
