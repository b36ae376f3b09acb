"""Who plays episodes when the environment is not ours. Nothing in this package imports JAX: a worker starts at once."""
