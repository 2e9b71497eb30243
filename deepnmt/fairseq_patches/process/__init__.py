"""Changes to the whole process: only where a command runs, ours or one of fairseq's."""
