"""The network: what a paper describes."""
