"""The entities audit: are token classifiers more confident in names that they were trained on (Xia et al. 2024)?

Start with audit.py.
"""
