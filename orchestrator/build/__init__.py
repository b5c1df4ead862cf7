"""The verbs as stories: each module carries one out, from labels to what a user sees."""
