"""What runs circuits: simulators in the worker, and the machines of vendors."""
