"""torch: every model, with every option of the search."""
