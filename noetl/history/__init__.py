"""What a log says about an execution: why a step ran, did not run, or waits; and in what two
executions differ.

Pure: looks at nets and events, and decides nothing. Imports the engine, nets and facts; knows no
database and no clock.
"""
