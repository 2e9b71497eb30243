"""fairseq's keys of a checkpoint."""

# Where `extra_state` has the count of --patience.
PATIENCE = "patience"
