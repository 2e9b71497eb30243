"""Translations of subsets of data folders, and the settings and errors of their search."""
