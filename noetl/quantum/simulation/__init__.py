"""What simulators of the worker need: noise, samples, means, and sweeps point by point."""
