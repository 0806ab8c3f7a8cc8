"""Pure learners: values in, values out. No clock, file, network, environment or hidden randomness."""
