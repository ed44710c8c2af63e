"""The keys of a quantum task as models. Imports no Cirq: the compiler reads them."""
