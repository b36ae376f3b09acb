"""Learning and judging from logged trajectories, without playing."""
