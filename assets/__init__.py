"""Dagster assets: read, check, call a learner, publish; lake.py and publish.py are the ways in or out."""
