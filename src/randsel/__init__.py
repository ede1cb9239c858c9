"""Non-linear feature selection by kernel-target alignment."""
