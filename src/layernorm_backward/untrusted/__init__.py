"""Somebody's code: it may raise, never come back, write beyond its arrays or return what does not fit."""
