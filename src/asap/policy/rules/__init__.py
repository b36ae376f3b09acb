"""A policy as text that a person can read, write and correct: text <-> rulebook <-> policy."""
