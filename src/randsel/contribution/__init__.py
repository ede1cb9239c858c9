"""The contribution of every feature to kernel-target alignment: closed form and bootstrap."""
