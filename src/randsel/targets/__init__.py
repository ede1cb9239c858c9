"""The outcome y, encoded as the factor of its kernel."""
