"""What every part may use: writes that are all or nothing, templates that trust no caller."""
