"""A decoder one position at a time, each file beside its twin in `deepnmt/model/`."""
