"""The page of `report --html`: libraries, what is in them, what apps share, and the last build."""
