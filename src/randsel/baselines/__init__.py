"""The five methods that the paper compares randSel with."""
