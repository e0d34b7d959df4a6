"""Tolerances for computed gradients: the rules by which tests accept or reject them, and their input.

setting      a problem with its exact gradients, and the sizes that errors are relative to
rules        kinds of rules: fixed, a multiple of a plain kernel's error, the full bound, its one-line form
registry     the rules that are compared, by name
"""
