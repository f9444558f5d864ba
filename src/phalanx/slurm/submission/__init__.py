"""From a script and options to objects of the API."""
