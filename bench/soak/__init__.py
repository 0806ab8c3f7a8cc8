"""The soak: real load on the real store, daemon and workspace, measured all along and counted at the end.

`make soak` runs it. `load` makes the observations, `stage` starts what is under test, `past` puts old
observations there first, `watch` measures, `verdicts` judges, `picture` draws.
"""
