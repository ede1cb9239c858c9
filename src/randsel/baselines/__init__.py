"""The five methods that the paper compares randSel with, as selectors with the same interface.

A comparison must not share the errors of what it compares: this folder imports checks of data, targets, distances and
centring, but neither contribution nor culling nor selectors.
"""
