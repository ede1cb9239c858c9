"""Feature learning and multiple kernel learning: sparse filtering, LPBoost."""
