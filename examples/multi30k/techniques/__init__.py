"""What each technique of `docs/search.md` gains on a data folder, and what it costs: the measurements of search.sh."""
