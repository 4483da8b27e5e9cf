"""The image database as a local web service with a page."""
