"""Trainings as commands start them: the place, the lock, the log, and the processes."""
