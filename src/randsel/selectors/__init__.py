"""The scikit-learn estimators: RandSel, RandSelCV and InteractionScan."""
