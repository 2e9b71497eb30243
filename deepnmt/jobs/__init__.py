"""Work that may be killed at any moment, and goes on when its command is run again."""
