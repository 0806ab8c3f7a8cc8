"""The store's public contract: what a worker installs and sees. Knows nothing of analytics."""
