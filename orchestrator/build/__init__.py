"""The steps of each verb, from labels to the result that a command prints."""
