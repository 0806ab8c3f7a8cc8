"""Dagster assets: read, check, call a learner, publish. lake.py and publish.py are the only ways in or out."""
