"""What happened as rows of tables: one fold of an execution's events for those who count instead of
decide.

Pure, like the engine whose states it reads. Imports the engine, nets and facts; knows no database
and no file.
"""
