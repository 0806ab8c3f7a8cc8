"""Pure learners: frames and values in, values out. No clock, file, network, environment or hidden randomness."""
