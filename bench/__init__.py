"""The benchmark table: ours, each peer on the same work in the same run, the ratio, and the limit that binds.

Peers are an extra of their own, never a dependency. Figures are medians of several runs, none is a test.
"""
