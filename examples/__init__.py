"""The small fleet that does real work for the main job."""
