"""Measures the machine at hand with torch: ceilings, launch costs, a whole decode step.

Only torch, NumPy, the standard library and this folder: it runs in any image that has torch, from a
job made elsewhere: ``python -m planner.lab JOB.json OUT``. What it measures lies in OUT as text.
"""
